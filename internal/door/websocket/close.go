package websocket

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"
	"unicode/utf8"
)

// refusedLinger is how long the server reads and discards what a client sends after it broke the protocol, so that the
// client can read why.
const refusedLinger = time.Second

// Close ends the connection with a code and a reason, of which at most 123 bytes are sent. The close is sent after the
// queue. After the call nothing more is queued, and Read returns ErrClosed. If the client needs more than
// Options.CloseTimeout to read the queue and answer the close, the TCP connection is closed. Further calls do nothing.
func (c *Conn) Close(code int, reason string) { c.end(code, reason, false) }

// Cut is like Close, but drops what is queued. Messages that are being written are finished; slots make no more
// frames.
func (c *Conn) Cut(code int, reason string) { c.end(code, reason, true) }

// Abort closes the TCP connection at once, without a close frame.
func (c *Conn) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort()
}

func (c *Conn) end(code int, reason string, drop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	if drop {
		c.cut = true
		c.drop()
	}
	c.sendClose(code, reason)
}

// isCut reports whether Cut was called.
func (c *Conn) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// cutSlow closes the connection of a reader that is too slow. Its queue is empty, and nothing more is queued.
func (c *Conn) cutSlow(slow func() string) {
	reason := "too slow"
	if slow != nil {
		reason = slow()
	}
	c.server.options.Metrics.cut.Inc()
	c.server.options.Log.Info("a WebSocket connection is cut", "client", c.remote, "reason", reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		c.sendClose(CodeTooSlow, reason)
	}
}

// sendClose queues the close, which is the last frame. Its caller holds mu.
func (c *Conn) sendClose(code int, reason string) {
	c.ending = true
	c.push(item{frame: closeFrame(code, reason)})
	c.flush()
	c.moved.Broadcast()
	c.stopTimer()
	c.closeBy = time.Now().Add(c.server.options.CloseTimeout)
	if c.conn != nil {
		c.timer = time.AfterFunc(c.server.options.CloseTimeout, c.Abort)
		c.setDeadline()
	}
}

// closeFrame returns a close frame with a code, without one if code is 0, and as much of the reason as fits.
func closeFrame(code int, reason string) Frame {
	if code == 0 {
		return newFrame(opClose, nil)
	}
	if len(reason) > reasonBytesMax {
		reason = reason[:reasonBytesMax]
		for !utf8.ValidString(reason) {
			reason = reason[:len(reason)-1]
		}
	}
	return newFrame(opClose, append([]byte{byte(code >> 8), byte(code)}, reason...))
}

// abort closes the TCP connection. Its caller holds mu.
func (c *Conn) abort() {
	if c.dead {
		return
	}
	c.ending, c.dead = true, true
	c.drop()
	c.moved.Broadcast()
	c.stopTimer()
	if c.conn != nil {
		_ = rawOf(c.conn).Close()
	}
}

// rawOf returns the connection below TLS. Closing the TLS connection would wait for a client that reads nothing.
func rawOf(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// stopTimer stops the timer. Its caller holds mu.
func (c *Conn) stopTimer() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// setDeadline sets the read deadline of the connection's present state. Its caller holds mu.
func (c *Conn) setDeadline() {
	switch {
	case c.dead || c.conn == nil:
	case c.lingers:
		_ = c.conn.SetReadDeadline(c.closeBy)
	case c.ending:
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	case c.draining && c.reading && !c.graced: // the grace period begins only when the handler reads
		c.graced = true
		_ = c.conn.SetReadDeadline(time.Now().Add(drainGrace))
	}
}

// drain lets the handler read what has already arrived, and then makes Read return ErrDraining.
func (c *Conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	c.setDeadline()
}

// finish ends the connection after its handler has returned: it sends the close and waits for the client's.
func (c *Conn) finish() {
	c.mu.Lock()
	if !c.ending {
		if c.draining {
			c.sendClose(CodeGoingAway, "the server stops")
		} else {
			c.sendClose(CodeNormal, "")
		}
	}
	c.lingers = true
	c.setDeadline()
	c.mu.Unlock()
	c.discard()
	c.mu.Lock()
	for !c.dead && (c.writing || c.hasWork()) {
		c.moved.Wait()
	}
	dead := c.dead
	c.mu.Unlock()
	if c.refused && !dead {
		c.discardAll()
	}
	c.mu.Lock()
	dead, c.dead = c.dead, true
	c.stopTimer()
	for c.writing { // true only if the connection was aborted
		c.moved.Wait()
	}
	c.mu.Unlock()
	if !dead {
		_ = c.conn.Close()
	}
}

// discard reads and discards frames until the client's close arrives or closeBy has passed.
func (c *Conn) discard() {
	for !c.closed && !c.refused {
		switch _, err := c.step(); {
		case err == nil, errors.Is(err, errRefused), errors.Is(err, errClosed):
		case errors.Is(err, os.ErrDeadlineExceeded):
			return
		default:
			c.Abort() // the client has disconnected
			return
		}
	}
}

// discardAll reads and discards what a client sends, until the client has had time to read why the connection ends.
// Otherwise TCP would reset the connection because of unread bytes, and the close frame could be lost.
func (c *Conn) discardAll() {
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(min(refusedLinger, c.server.options.CloseTimeout)))
	_, _ = io.Copy(io.Discard, c.conn) // an error ends the reading like the end of the stream
}
