// Package trywrite writes to a connection what the client has room for, and never waits: a switch to a goroutine that
// may wait costs more than most of what is written.
package trywrite

import (
	"net"
	"syscall"
)

// Writer writes to a connection without waiting. It is for one goroutine at a time.
type Writer struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool // made once: a closure for each write would be garbage
	rest []byte
	sent int
}

// New returns nil for a connection that cannot be written to so, such as one with TLS.
func New(conn net.Conn) *Writer {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	w := &Writer{raw: raw}
	w.try = func(fd uintptr) bool {
		w.sent, _ = syscall.Write(int(fd), w.rest) // an error is met again by who waits
		return true
	}
	return w
}

// Write returns how many bytes the connection has taken: 0 of a nil Writer, and of one whose connection has failed.
func (w *Writer) Write(bytes []byte) int {
	if w == nil {
		return 0
	}
	w.rest, w.sent = bytes, 0
	_ = w.raw.Write(w.try) // a deadline that has passed is no matter: 0 were taken
	w.rest = nil
	return max(w.sent, 0)
}
