package sdnotify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serviceManager is a socket that receives messages; the environment names it.
type serviceManager struct{ *net.UnixConn }

func newServiceManager(t *testing.T) serviceManager {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "outcry-notify-") // sockets need a short path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
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

// TestTheWatchdogHearsNothingUntilTheExchangeIsAlive lets three checks fail, in different ways, before one
// succeeds.
func TestTheWatchdogHearsNothingUntilTheExchangeIsAlive(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "10000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	var log bytes.Buffer
	n, err := New(slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	defer n.Close()
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Feed(ctx, func(ctx context.Context) error {
			switch looks++; looks {
			case 1:
				return errors.New("the journal has failed")
			case 2, 3: // hangs
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, func() string { return fmt.Sprint("STATUS=look ", looks) })
	}()
	require.Equal(t, "WATCHDOG=1\nSTATUS=look 4", m.next(t))
	require.Equal(t, "WATCHDOG=1\nSTATUS=look 5", m.next(t))
	cancel()
	<-ended
	require.Contains(t, log.String(), "the journal has failed")
	require.Contains(t, log.String(), "deadline exceeded")
}

func TestTheEnvironmentOfAServiceManagerIsCheckedAndTakenAway(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	none, err := New(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Nil(t, none)
	none.Tell("READY=1") // does nothing
	none.Feed(t.Context(), nil, nil)
	none.Close()

	m := newServiceManager(t)
	socket := os.Getenv("NOTIFY_SOCKET")
	for _, test := range []struct {
		socket, usec, pid string
		watchdog          time.Duration
		err               string
	}{
		{socket, "", "", 0, ""},
		{socket, "3000000", "", 3 * time.Second, ""},
		{socket, "3000000", fmt.Sprint(os.Getpid()), 3 * time.Second, ""},
		{socket, "3000000", "1", 0, ""}, // for another process
		{socket, "soon", "", 0, `WATCHDOG_USEC="soon": not a number`},
		{socket, "0", "", 0, `WATCHDOG_USEC="0"`},
		{socket, "9223372036854775807", "", 0, `WATCHDOG_USEC="9223372036854775807"`},
		{socket + "-not", "", "", 0, `NOTIFY_SOCKET="` + socket + `-not"`},
	} {
		t.Setenv("NOTIFY_SOCKET", test.socket)
		t.Setenv("WATCHDOG_USEC", test.usec)
		t.Setenv("WATCHDOG_PID", test.pid)
		n, err := New(slog.New(slog.DiscardHandler))
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
			_, there := os.LookupEnv(name)
			require.False(t, there, name)
		}
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.watchdog, n.watchdog)
		n.Tell("READY=1", Status("two\nlines"))
		require.Equal(t, "READY=1\nSTATUS=two lines", m.next(t))
		n.Close()
	}
}

func TestAServiceManagerThatIsGoneIsLogged(t *testing.T) {
	m := newServiceManager(t)
	var log bytes.Buffer
	n, err := New(slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.NoError(t, m.Close())
	n.Tell("READY=1")
	require.Contains(t, log.String(), "the service manager cannot be notified")
	n.Close()
	log.Reset()
	n.Tell("STOPPING=1")
	require.Empty(t, log.String())
}
