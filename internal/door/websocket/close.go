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

// refusedLinger is how long is read and discarded of a client whose bytes make no sense, so that it reads why.
const refusedLinger = time.Second

// Close ends the connection behind what waits, with a code and a reason, of which 123 bytes are sent at the most.
// Nothing is taken any more, and Read returns ErrClosed. The client has Options.CloseTimeout for all that; then TCP
// ends. Further calls do nothing.
func (c *Conn) Close(code int, reason string) { c.end(code, reason, false) }

// Cut is Close, but what waits is dropped. Messages that are being written are finished; slots make no further ones.
func (c *Conn) Cut(code int, reason string) { c.end(code, reason, true) }

// Abort ends TCP at once.
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

// cutSlow cuts the connection of a reader that is too slow, whose queue is empty and takes nothing any more.
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

// sendClose queues the last frame. Its caller holds mu.
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

// closeFrame returns a close with a code, 0 for none, and as much of a reason as fits.
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

// abort ends TCP. Its caller holds mu.
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

// rawOf returns the connection below TLS, whose farewell would wait for a client that takes nothing.
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

// setDeadline lets the handler read for as long as it may. Its caller holds mu.
func (c *Conn) setDeadline() {
	switch {
	case c.dead || c.conn == nil:
	case c.lingers:
		_ = c.conn.SetReadDeadline(c.closeBy)
	case c.ending:
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	case c.draining && c.reading && !c.graced: // from here on, whatever the handler did before
		c.graced = true
		_ = c.conn.SetReadDeadline(time.Now().Add(drainGrace))
	}
}

// drain lets the handler read what has already arrived, and then end.
func (c *Conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	c.setDeadline()
}

// finish ends the connection once its handler has returned: it has the close sent, and waits for the client's.
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
	for c.writing { // only of one that was ended at once
		c.moved.Wait()
	}
	c.mu.Unlock()
	if !dead {
		_ = c.conn.Close()
	}
}

// discard reads frames up to the client's close, or to closeBy.
func (c *Conn) discard() {
	for !c.closed && !c.refused {
		switch _, err := c.step(); {
		case err == nil, errors.Is(err, errRefused), errors.Is(err, errClosed):
		case errors.Is(err, os.ErrDeadlineExceeded):
			return
		default:
			c.Abort() // the client is gone
			return
		}
	}
}

// discardAll reads and discards what a client sends until it has read why the connection ends: a connection that is
// closed with bytes unread is reset, and the close could be lost.
func (c *Conn) discardAll() {
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(min(refusedLinger, c.server.options.CloseTimeout)))
	_, _ = io.Copy(io.Discard, c.conn) // any end will do
}
