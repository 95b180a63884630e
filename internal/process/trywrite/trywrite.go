// Package trywrite writes to a connection only as much as the kernel accepts at once, and never blocks. Most writes
// are small, and switching to a goroutine that may block would cost more than the write.
package trywrite

import (
	"net"
	"syscall"
)

// Writer writes to a connection without blocking. It is not safe for concurrent use.
type Writer struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool // made once, because a closure for each write would be garbage
	rest []byte
	sent int
}

// New returns a Writer, or nil for a connection without a file descriptor to write to, such as one with TLS.
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
		w.sent, _ = syscall.Write(int(fd), w.rest) // the blocking write that follows meets the error again
		return true
	}
	return w
}

// Write returns how many bytes were written. It returns 0 for a nil Writer or if the connection has failed.
func (w *Writer) Write(bytes []byte) int {
	if w == nil {
		return 0
	}
	w.rest, w.sent = bytes, 0
	_ = w.raw.Write(w.try) // on an error, such as a passed deadline, nothing was written
	w.rest = nil
	return max(w.sent, 0)
}
