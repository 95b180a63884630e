package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serviceManager is a socket that messages arrive at, named in the environment.
type serviceManager struct{ *net.UnixConn }

func newServiceManager(t *testing.T) serviceManager {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "outcry-notify-") // short enough for a socket
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

// nextOther is next, but for what the watchdog is told.
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

// TestTheWatchdogHearsNothingUntilTheExchangeIsAlive lets three looks fail, each in
// another way, before one succeeds.
func TestTheWatchdogHearsNothingUntilTheExchangeIsAlive(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "10000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	var log bytes.Buffer
	n, err := newNotifier(slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	defer n.close()
	ctx, cancel := context.WithCancel(background)
	looks := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.feed(ctx, func(ctx context.Context) error {
			switch looks++; looks {
			case 1:
				return errors.New("the journal has failed")
			case 2, 3: // it hangs
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

func TestTheEnvironmentOfAServiceManagerIsCheckedAndTakenAway(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	none, err := newNotifier(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Nil(t, none)
	none.tell("READY=1") // to nobody
	none.feed(background, nil, nil)
	none.close()

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
		{socket, "3000000", "1", 0, ""}, // meant for another process
		{socket, "soon", "", 0, `WATCHDOG_USEC="soon": not a number`},
		{socket, "0", "", 0, `WATCHDOG_USEC="0"`},
		{socket, "9223372036854775807", "", 0, `WATCHDOG_USEC="9223372036854775807"`},
		{socket + "-not", "", "", 0, `NOTIFY_SOCKET="` + socket + `-not"`},
	} {
		t.Setenv("NOTIFY_SOCKET", test.socket)
		t.Setenv("WATCHDOG_USEC", test.usec)
		t.Setenv("WATCHDOG_PID", test.pid)
		n, err := newNotifier(slog.New(slog.DiscardHandler))
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
		n.tell("READY=1", statusLine("two\nlines"))
		require.Equal(t, "READY=1\nSTATUS=two lines", m.next(t))
		n.close()
	}
}

func TestAServiceManagerThatIsGoneIsLogged(t *testing.T) {
	m := newServiceManager(t)
	var log bytes.Buffer
	n, err := newNotifier(slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.NoError(t, m.Close())
	n.tell("READY=1")
	require.Contains(t, log.String(), "the service manager cannot be told")
	n.close()
	log.Reset()
	n.tell("STOPPING=1")
	require.Empty(t, log.String())
}
