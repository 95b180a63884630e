package dialect

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// After the server has closed a connection, a new server can listen on the same port at once, even if it does not
// set SO_REUSEADDR.
func TestNothingStaysOfAConnectionThatTheServerClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	conn, err := (&Connector{Addr: addr}).Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.SendRaw(t.Context(), []byte("x")))
	theirs, err := l.Accept()
	require.NoError(t, err)
	_, err = theirs.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	_, err = conn.Receive(t.Context())
	require.Error(t, err)
	conn.Close()
	require.NoError(t, l.Close())
	strict := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
		}), err)
	}}
	again, err := strict.Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
