package websocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
	"unicode/utf8"
)

// Read returns the next text message once it is complete. The message is valid until the next call. Read answers pings
// and other control frames on the way. It returns ErrClosed if the connection has ended; the client has then been sent
// the reason if the protocol requires one. It returns ErrDraining if the server stops.
func (c *Conn) Read() (text []byte, err error) {
	if c.returned {
		c.returned = false
		if cap(c.message) > keepBytes {
			c.message = nil
		}
		c.message = c.message[:0]
	}
	c.setReading(true)
	defer c.setReading(false)
	for {
		switch whole, err := c.step(); {
		case err != nil:
			if err = c.endOf(err); err != nil {
				return nil, err
			}
		case whole && !utf8.Valid(c.message):
			return nil, c.endOf(c.refuse(CodeInvalidText, "a message is not UTF-8"))
		case whole:
			c.returned = true
			return c.message, nil
		}
	}
}

// Buffered reports whether a complete message in one frame has arrived, which Read returns without waiting if the
// connection has not ended. Only the handler calls it.
func (c *Conn) Buffered() bool {
	if c.inFrame || c.partial || c.refused {
		return false
	}
	have := c.in.Buffered()
	b, _ := c.in.Peek(min(have, headerBytesMax)) // these bytes are buffered
	if len(b) < 2 || headerLen([2]byte(b)) > len(b) {
		return false
	}
	n := headerLen([2]byte(b))
	h := parseHeader(b[:n])
	return h.check(false) == "" && h.op == opText && h.fin && h.length <= uint64(have-n)
}

// setReading sets whether the handler waits in Read.
func (c *Conn) setReading(reading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading = reading; reading {
		c.setDeadline()
	}
}

// Errors that end reading, in addition to those of the network connection.
var (
	errRefused = errors.New("socket: the client broke the protocol, and later frames cannot be read")
	errClosed  = errors.New("socket: the client has closed")
)

// endOf returns the error of Read for an error of step. nil means that reading continues.
func (c *Conn) endOf(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, errRefused), errors.Is(err, errClosed):
	case !errors.Is(err, os.ErrDeadlineExceeded):
		c.abort() // the client has disconnected
	case !c.ending && c.draining:
		return ErrDraining
	case !c.ending: // the deadline was set for another state
		_ = c.conn.SetReadDeadline(time.Time{})
		return nil
	}
	return ErrClosed
}

// step reads to the end of the next frame and reports whether a message is complete and is to be returned. After a
// missed deadline the next call continues where this one stopped.
func (c *Conn) step() (message bool, err error) {
	if !c.inFrame {
		if err := c.readHeader(); err != nil {
			return false, err
		}
	}
	if c.frame.isControl() {
		return false, c.readControl()
	}
	for c.got < int(c.frame.length) {
		if err := c.readPiece(); err != nil {
			return false, err
		}
	}
	c.inFrame, c.partial = false, !c.frame.fin
	c.heard.Store(true)
	if c.partial {
		return false, nil
	}
	if c.Ended() {
		c.message = c.message[:0]
		return false, nil
	}
	return true, nil
}

// readPiece reads a piece of a payload. Memory is allocated only as bytes arrive.
func (c *Conn) readPiece() error {
	have := len(c.message)
	piece := min(int(c.frame.length)-c.got, max(have, readBufferBytes))
	c.message = slices.Grow(c.message, piece)
	n, err := c.in.Read(c.message[have : have+piece])
	c.message = c.message[:have+n]
	unmask(c.message[have:], c.frame.mask, c.got)
	c.got += n
	return err
}

// readHeader reads and checks the header of the next frame. It refuses frames that are invalid or too large.
func (c *Conn) readHeader() error {
	first, err := c.in.Peek(2)
	if err != nil {
		return err
	}
	n := headerLen([2]byte(first))
	b, err := c.in.Peek(n)
	if err != nil {
		return err
	}
	h := parseHeader(b)
	if wrong := h.check(c.partial); wrong != "" {
		return c.refuse(CodeProtocol, wrong)
	}
	switch {
	case h.op == opBinary:
		return c.refuse(CodeUnsupported, "a binary message: messages are text")
	case !h.isControl() && uint64(len(c.message))+h.length > MessageBytesMax:
		return c.refuse(CodeTooLarge, fmt.Sprintf("a message is over the limit of %d bytes", MessageBytesMax))
	}
	_, _ = c.in.Discard(n) // these bytes are buffered
	c.inFrame, c.frame, c.got = true, h, 0
	return nil
}

// refuse closes the connection because of bytes that the client has sent, and stops reading.
func (c *Conn) refuse(code int, reason string) error {
	c.refused = true
	c.Close(code, reason)
	return errRefused
}

// readControl reads the payload of a control frame, and answers a ping or a close.
func (c *Conn) readControl() error {
	n, err := io.ReadFull(c.in, c.control[c.got:c.frame.length])
	unmask(c.control[c.got:][:n], c.frame.mask, c.got)
	c.got += n
	if err != nil {
		return err
	}
	c.inFrame = false
	c.heard.Store(true)
	payload := c.control[:c.got]
	switch c.frame.op {
	case opPing:
		c.answerPing(payload)
	case opClose:
		c.closed = true
		c.answerClose(payload)
		return errClosed
	}
	return nil
}

// answerPing answers a ping. If no writer runs, it writes the pong itself. Several pings in a row are therefore all
// answered while the client reads the pongs, although at most one pong waits.
func (c *Conn) answerPing(payload []byte) {
	c.mu.Lock()
	if !c.ending {
		c.setPong(newFrame(opPong, payload))
	}
	c.mu.Unlock()
	c.flushHere()
}

// answerClose answers the client's close. If the server has closed first, this is the client's answer.
func (c *Conn) answerClose(payload []byte) {
	switch {
	case len(payload) == 0:
		c.Close(0, "")
	case len(payload) == 1 || !isCloseCode(int(binary.BigEndian.Uint16(payload))):
		c.Close(CodeProtocol, "a close with an invalid code")
	case !utf8.Valid(payload[2:]):
		c.Close(CodeInvalidText, "a close whose reason is not UTF-8")
	default:
		c.Close(int(binary.BigEndian.Uint16(payload)), "")
	}
}

// isCloseCode reports whether a client may close with this code (RFC 6455, section 7.4).
func isCloseCode(code int) bool {
	return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006 || code >= 3000 && code <= 4999
}
