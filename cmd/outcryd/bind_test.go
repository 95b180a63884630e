package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABoundAddressRefusesClientsUntilItIsListenedOn(t *testing.T) {
	for address, dialed := range map[string]string{"127.0.0.1:0": "127.0.0.1", "localhost:0": "localhost", ":0": "127.0.0.1", "0.0.0.0:0": "127.0.0.1", "127.0.0.3:0": "127.0.0.3"} {
		b, err := bind("listen", address)
		require.NoError(t, err, address)
		_, port, err := net.SplitHostPort(b.addr.String())
		require.NoError(t, err)
		at := net.JoinHostPort(dialed, port)
		_, err = net.Dial("tcp", at)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, address)
		l, err := b.listen()
		require.NoError(t, err, address)
		require.Equal(t, b.addr.(*net.TCPAddr).Port, l.Addr().(*net.TCPAddr).Port)
		c, err := net.Dial("tcp", at)
		require.NoError(t, err, address)
		accepted, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, accepted.Close())
		require.NoError(t, c.Close())
		_, err = bind("listen", at)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.NoError(t, l.Close())
		b.close() // does nothing any more

		again, err := bind("listen", at)
		require.NoError(t, err, "at once, with a connection that has just ended")
		again.close()
		again.close()
	}
	for address, wrong := range map[string]string{"127.0.0.1": "missing port", "nobody.invalid:0": "nobody.invalid", "192.0.2.1:0": "cannot assign"} {
		_, err := bind("http", address)
		require.ErrorContains(t, err, "--http "+address)
		require.ErrorContains(t, err, wrong)
	}
}

// TestOneAddressForBothPortsIsFoundBeforeADatabaseIsMade: the kernel gives it to two sockets
// that do not listen.
func TestOneAddressForBothPortsIsFoundBeforeADatabaseIsMade(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	for _, both := range [][2]string{{"127.0.0.1:", "127.0.0.1:"}, {"127.0.0.1:", "localhost:"}, {"127.0.0.1:", ":"}, {"0.0.0.0:", "[::1]:"}} {
		s := &server{config: &config{security: security{open: true}, listen: both[0] + port, http: both[1] + port}}
		_, err := s.bindBoth()
		require.ErrorContains(t, err, "give another address with --http", both)
	}
	for _, both := range [][2]string{{"127.0.0.1:0", "127.0.0.1:0"}, {"127.0.0.1:" + port, "127.0.0.3:" + port}} {
		s := &server{config: &config{listen: both[0], http: both[1]}}
		http, err := s.bindBoth()
		require.NoError(t, err)
		s.xmlAddr.close()
		http.close()
	}
}

// TestAnAddressInUseIsFoundBeforeADatabaseIsMade: the reason is the first line of the
// log, with the flag, and no line says that an exchange has stopped that never ran.
func TestAnAddressInUseIsFoundBeforeADatabaseIsMade(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	for _, flag := range []string{"listen", "http"} {
		data := filepath.Join(t.TempDir(), "data")
		p := launch(t, "--data="+data, "--database-url=", "--"+flag+"="+other.Addr().String())
		log := p.fails(t)
		var lines []string
		for line := range strings.Lines(log) {
			if !strings.Contains(line, runVariable) { // of which the program knows nothing
				lines = append(lines, line)
			}
		}
		require.Len(t, lines, 1, log)
		require.Contains(t, lines[0], "address already in use")
		require.Contains(t, lines[0], "give another address with --"+flag)
		require.NotContains(t, log, `"msg":"stopped"`)
		require.NoDirExists(t, filepath.Join(data, "postgres"))
		require.NoDirExists(t, filepath.Join(data, "journal"))
	}
}
