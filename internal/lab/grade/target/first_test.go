package target

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echoes requires that conn leads to a server that echoes, and closes it.
func echoes(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NotNil(t, conn)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(waitMax)))
	_, err := io.WriteString(conn, "hello")
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, len("hello")))
	require.NoError(t, err)
}

// A server that ends when a client connects and sends nothing must still get its first frame, even after it was killed
// and restarted.
func TestTheConnectionThatShowsAServerReadyIsItsFirst(t *testing.T) {
	s := start(t, Options{Command: server("silence-ends", token(t))})
	echoes(t, s.First())
	require.Nil(t, s.First(), "it was taken")
	require.NoError(t, s.Kill(t.Context()))
	require.NoError(t, s.Start(t.Context()))
	echoes(t, s.First())
	require.NoError(t, s.Kill(t.Context()))
	require.NoError(t, s.Start(t.Context()))
	require.NoError(t, s.Kill(t.Context()))
	require.Nil(t, s.First(), "it is closed with the server")
}

func TestTheFirstConnectionToAnAttachedServerCarriesAFrame(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s, err := Attached(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	first := s.First()
	require.NotNil(t, first)
	defer first.Close()
	require.Equal(t, conn.RemoteAddr().String(), first.LocalAddr().String())
	require.Nil(t, s.First())
}
