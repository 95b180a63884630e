package door

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peerError asks the kernel for the state of a connection, without reading from it. It returns io.EOF if the
// client has closed its side and everything it sent was read, ECONNRESET if nothing can be sent to it any
// more, and nil otherwise. It also returns nil after a client has closed its side of TLS: data may still be
// in the server's own buffers.
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
