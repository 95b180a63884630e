package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
)

// TestOneAddressForBothPortsIsFoundBeforeADatabaseIsMade: the server itself must notice that both flags name one
// address, because the kernel lets two sockets bind the address until one of them listens.
func TestOneAddressForBothPortsIsFoundBeforeADatabaseIsMade(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	for _, both := range [][2]string{{"127.0.0.1:", "127.0.0.1:"}, {"127.0.0.1:", "localhost:"}, {"127.0.0.1:", ":"},
		{"0.0.0.0:", "[::1]:"}} {
		s := &server{config: &settings.Config{Open: true, Listen: both[0] + port, HTTP: both[1] + port}}
		_, err := s.bindBoth()
		require.ErrorContains(t, err, "give another address with --http", both)
	}
	for _, both := range [][2]string{{"127.0.0.1:0", "127.0.0.1:0"}, {"127.0.0.1:" + port, "127.0.0.3:" + port}} {
		s := &server{config: &settings.Config{Listen: both[0], HTTP: both[1]}}
		http, err := s.bindBoth()
		require.NoError(t, err)
		s.xmlAddr.Close()
		http.Close()
	}
}

// TestAnAddressInUseIsFoundBeforeADatabaseIsMade: the first line of the log gives the reason and the flag, and no line
// reports the stop of an exchange that never ran.
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
			if !strings.Contains(line, runVariable) { // the test's own variable, which the program does not know
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
