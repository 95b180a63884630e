package listen

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABoundAddressRefusesClientsUntilItIsListenedOn(t *testing.T) {
	for address, dialed := range map[string]string{"127.0.0.1:0": "127.0.0.1", "localhost:0": "localhost",
		":0": "127.0.0.1", "0.0.0.0:0": "127.0.0.1", "127.0.0.3:0": "127.0.0.3"} {
		b, err := Bind("listen", address)
		require.NoError(t, err, address)
		_, port, err := net.SplitHostPort(b.Addr.String())
		require.NoError(t, err)
		at := net.JoinHostPort(dialed, port)
		_, err = net.Dial("tcp", at)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, address)
		l, err := b.Listen()
		require.NoError(t, err, address)
		require.Equal(t, b.Addr.(*net.TCPAddr).Port, l.Addr().(*net.TCPAddr).Port)
		c, err := net.Dial("tcp", at)
		require.NoError(t, err, address)
		accepted, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, accepted.Close())
		require.NoError(t, c.Close())
		_, err = Bind("listen", at)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.NoError(t, l.Close())
		b.Close() // does nothing after Listen

		again, err := Bind("listen", at)
		require.NoError(t, err, "the address can be used again at once")
		again.Close()
		again.Close()
	}
	for address, wrong := range map[string]string{"127.0.0.1": "missing port", "nobody.invalid:0": "nobody.invalid",
		"192.0.2.1:0": "cannot assign"} {
		_, err := Bind("http", address)
		require.ErrorContains(t, err, "--http "+address)
		require.ErrorContains(t, err, wrong)
	}
}
