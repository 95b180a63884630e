package door

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peerError reports what became of a connection, and reads nothing: io.EOF means that the client
// sends no more and that all of it has been read, ECONNRESET that nothing can be sent
// to it either. It returns nil if that is not known, as with a client that has only ended
// TLS: what was sent before may still be in the server's own buffers.
func peerError(conn net.Conn) error {
	secure, encrypted := conn.(*tls.Conn)
	if encrypted {
		conn = secure.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var found error
	if closed := raw.Control(func(fd uintptr) {
		asked := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(asked, 0); err != nil || n == 0 {
			return
		}
		if asked[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			found = unix.ECONNRESET
			return
		}
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if n == 0 && err == nil && !encrypted {
			found = io.EOF
		}
	}); closed != nil {
		return closed
	}
	return found
}
