package session

import (
	"net"
	"syscall"
)

// trySend sends a reply that is durable, if none waits before it: a switch to the
// writer costs more than most of what a query does. The client must have room for it.
// What it has no room for is left to the writer, so that the reader never waits here.
func (c *session) trySend(r *reply) bool {
	if c.tryWriter == nil || r.last || c.ctx.Err() != nil || !c.server.exchange.MayTell(r.mark) {
		return false
	}
	if _, empty := c.unsent.silence(); !empty {
		return false
	}
	o := &c.server.options
	o.Metrics.lap(&r.clock, stageJournal)
	r.durable = true
	if len(c.sendSome(r)) > 0 {
		return false
	}
	c.unsent.passed()
	o.Metrics.answered(r)
	c.server.recycle(r)
	return true
}

// sendSome sends what the client has room for, and returns the rest of a reply. A
// deadline, which is not free, is left to those that have to wait.
func (c *session) sendSome(r *reply) []byte {
	if c.tryWriter != nil {
		rest := r.bytes[r.sent:]
		r.sent += c.tryWriter.write(rest[:min(len(rest), writeBytesMax)])
	}
	return r.bytes[r.sent:]
}

// tryWriter writes to a connection without waiting. It belongs to one goroutine at a time.
type tryWriter struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool // made once: a closure for each write would be garbage
	rest []byte
	sent int
}

// newTryWriter returns nil for a connection that cannot be written to so, such as one
// with TLS.
func newTryWriter(conn net.Conn) *tryWriter {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	w := &tryWriter{raw: raw}
	w.try = func(fd uintptr) bool {
		w.sent, _ = syscall.Write(int(fd), w.rest) // an error is met again by who waits
		return true
	}
	return w
}

// write returns how many bytes the connection has taken, 0 if it has failed.
func (w *tryWriter) write(bytes []byte) int {
	w.rest, w.sent = bytes, 0
	_ = w.raw.Write(w.try) // a deadline that has passed is no matter: 0 were taken
	w.rest = nil
	return max(w.sent, 0)
}
