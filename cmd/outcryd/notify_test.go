package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serviceManager is a socket that receives a service's notifications, as systemd's does. The environment names it.
type serviceManager struct{ *net.UnixConn }

func newServiceManager(t *testing.T) serviceManager {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "outcry-notify-") // a path short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	t.Setenv("NOTIFY_SOCKET", path)
	return serviceManager{conn}
}

// next returns the next message.
func (m serviceManager) next(t *testing.T) string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := m.Read(b)
	require.NoError(t, err)
	return string(b[:n])
}

// nextOther returns the next message that is not for the watchdog.
func (m serviceManager) nextOther(t *testing.T) string {
	t.Helper()
	for {
		if message := m.next(t); !strings.HasPrefix(message, "WATCHDOG=1") {
			return message
		}
	}
}

func TestTheServiceManagerIsToldFromStartToStop(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.Equal(t, "STATUS=starting", m.next(t))
	require.Equal(t, "READY=1\nSTATUS=taking orders", m.next(t))
	for range 3 {
		require.Equal(t, "WATCHDOG=1\nSTATUS=taking orders", m.next(t))
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "STOPPING=1", m.nextOther(t))
	require.Equal(t, "STATUS=stopping", m.nextOther(t))
	require.NoError(t, p.cmd.Wait())
}

func TestTheServiceManagerIsToldWhyAStartTakesLong(t *testing.T) {
	m := newServiceManager(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	launch(t, "--data="+t.TempDir(), "--database-url=postgres://outcry@"+nobody+"/outcry")
	require.Equal(t, "STATUS=starting", m.next(t))
	require.Contains(t, m.next(t), "connection refused")
}

func TestAnExchangeIsAliveUntilItsJournalFails(t *testing.T) {
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, flags...)
	dial(t, addr).must(t, opening)
	require.NoError(t, s.alive(background))
	ended, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, s.alive(ended), context.Canceled, "nobody has answered")
	s.setNotReady(errStopping)
	require.NoError(t, s.alive(ended), "a stop has its own limits")
}
