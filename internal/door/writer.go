package door

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"outcry/internal/engine"
)

// push sends a reply at once if it can. Otherwise it passes the reply to the writer, which is woken once the reply is
// durable or the session is cut off.
func (c *session) push(r *reply) {
	if c.trySend(r) {
		return
	}
	mark := r.mark
	c.unsent.push(r) // r belongs to the writer from here on
	if mark == (engine.Mark{}) || c.ctx.Err() != nil {
		c.unsent.wake()
	} else {
		c.server.exchange.Notify(mark, c.unsent.woken)
	}
}

// trySend sends a reply from the pushing goroutine if the reply is durable and no other reply waits: a switch
// to the writer costs more than most of the work for a query. It reports whether the whole reply was sent. It
// leaves bytes for which the client has no room to the writer, so it never waits.
func (c *session) trySend(r *reply) bool {
	if c.tryWriter == nil || r.last || c.ctx.Err() != nil || !c.server.exchange.IsDurable(r.mark) {
		return false
	}
	if _, empty := c.unsent.silence(); !empty {
		return false
	}
	o := &c.server.options
	o.Metrics.lap(&r.watch, stageJournal)
	r.durable = true
	if len(c.sendSome(r)) > 0 {
		return false
	}
	c.unsent.noteDirect()
	o.Metrics.answered(r)
	c.server.recycle(r)
	return true
}

// write sends the replies in order, each once it is durable. After a failure it stops the reader and discards
// the remaining replies. gotReason reports whether the client was sent the reason why its connection is closed.
func (c *session) write() (gotReason bool) {
	failed := false
	for r := c.unsent.front(); r != nil; r = c.unsent.front() {
		if !failed {
			if gotReason, failed = c.send(r); failed {
				c.stop()
			}
		}
		c.unsent.drop()
		c.server.recycle(r)
	}
	return gotReason
}

// send sends one reply. If the reply can never become durable, it sends textFailed instead.
func (c *session) send(r *reply) (gotReason, failed bool) {
	o := &c.server.options
	err := c.server.await(c.ctx, r.mark)
	if !r.durable {
		o.Metrics.lap(&r.watch, stageJournal)
	}
	if err != nil {
		gotReason = c.transmit(c.lastReply(textFailed).bytes) == nil
	} else if err = c.sendWhole(r); err == nil {
		if !r.last {
			o.Metrics.answered(r)
		}
		return r.last, false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		o.Metrics.hit(limitWriteTime)
	}
	c.log(slog.LevelInfo, "replies are not sent", r.frame, slog.Any("error", err))
	return gotReason, true
}

// sendWhole sends the rest of a reply, and waits for the client if necessary.
func (c *session) sendWhole(r *reply) error {
	if rest := c.sendSome(r); len(rest) > 0 {
		return c.transmit(rest)
	}
	return nil
}

// sendSome sends as much of a reply as the client has room for, and returns the rest. It sets no deadline,
// which would cost time; only writes that may wait need one.
func (c *session) sendSome(r *reply) []byte {
	if c.tryWriter != nil {
		rest := r.bytes[r.sent:]
		r.sent += c.tryWriter.Write(rest[:min(len(rest), writeBytesMax)])
	}
	return r.bytes[r.sent:]
}

// transmit writes to the client. The client has WriteTimeout for each piece, and less than that on average
// for all of them (writePieceTime).
func (c *session) transmit(bytes []byte) error {
	patience := c.within(c.server.limits.Load().WriteTimeout)
	last := time.Now().Add(patience + time.Duration(len(bytes)/writeBytesMax)*writePieceTime)
	for len(bytes) > 0 {
		deadline := time.Now().Add(patience)
		if last.Before(deadline) {
			deadline = last
		}
		if err := c.conn.SetWriteDeadline(deadline); err != nil {
			return fmt.Errorf("session: write reply: %w", err)
		}
		n, err := c.conn.Write(bytes[:min(len(bytes), writeBytesMax)])
		if err != nil {
			return fmt.Errorf("session: write reply: %w", err)
		}
		bytes = bytes[n:]
	}
	return nil
}

// lastReply returns a reply with the reason why the connection is closed and the connection's number, which
// finds the connection in the log.
func (c *session) lastReply(reason string) *reply {
	r := c.server.newReply(engine.Mark{}, time.Time{})
	r.last = true
	text := fmt.Sprintf("%s (connection %d)", reason, c.id)
	r.bytes = c.codec.EndReply(c.codec.AppendError(r.bytes, text), 0)
	return r
}

// linger closes the sending side, then reads and discards within bounds. A connection that is closed with
// unread bytes is reset, which could lose the last reply.
func (c *session) linger() { c.lingerOn(c.conn) }

// lingerOn is linger for a given connection, such as the TCP connection below TLS.
func (c *session) lingerOn(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if conn.SetReadDeadline(time.Now().Add(c.server.options.LingerTimeout)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, lingerBytesMax) // any error is ignored
}
