package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"outcry/internal/engine"
)

// notifyTimeout bounds how long a message to the service manager may take.
const notifyTimeout = time.Second

// notifier tells the service manager how the server is, as sd_notify(3) describes it.
// A nil one tells nobody. Its methods may be called from any goroutine.
type notifier struct {
	conn     net.Conn
	watchdog time.Duration // the service manager ends us when it hears nothing for so long; 0 is never
	log      *slog.Logger
}

// newNotifier connects to the service manager that the environment names, and takes it
// out of the environment: a Postgres that is our child would speak for us. It returns
// nil where there is none. The error names the variable that is wrong.
func newNotifier(log *slog.Logger) (*notifier, error) {
	socket, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if socket == "" {
		return nil, nil
	}
	n := &notifier{log: log}
	if usec != "" && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		v, err := strconv.ParseInt(usec, 10, 64)
		if err != nil || v <= 0 || v > int64(24*time.Hour/time.Microsecond) {
			return nil, fmt.Errorf("WATCHDOG_USEC=%q: not a number of microseconds of up to a day", usec)
		}
		n.watchdog = time.Duration(v) * time.Microsecond
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET=%q: %w", socket, err)
	}
	n.conn = conn
	return n, nil
}

// tell sends assignments, such as READY=1, in one message. What cannot be sent is
// logged: the exchange goes on without its service manager.
func (n *notifier) tell(assignments ...string) {
	if n == nil {
		return
	}
	message := strings.Join(assignments, "\n")
	err := n.conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	if err == nil {
		_, err = n.conn.Write([]byte(message))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n.log.Warn("the service manager cannot be told", "message", message, "error", err)
	}
}

// statusLine returns the assignment that `systemctl status` shows as a line of text.
func statusLine(format string, a ...any) string {
	return "STATUS=" + strings.ReplaceAll(fmt.Sprintf(format, a...), "\n", " ")
}

// feed tells the service manager twice in each of its intervals that the exchange is
// alive, but only after alive has returned nil in time. It ends with ctx.
func (n *notifier) feed(ctx context.Context, alive func(context.Context) error, state func() string) {
	if n == nil || n.watchdog == 0 {
		return
	}
	interval := n.watchdog / 2
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, interval)
		err := alive(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			n.tell("WATCHDOG=1", state())
		default:
			n.log.Error("the exchange does not answer, and the service manager may end it", "error", err, "watchdog", n.watchdog.String())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// close ends the connection to the service manager.
func (n *notifier) close() {
	if n != nil {
		_ = n.conn.Close() // nothing is left to be sent
	}
}

// feedWatchdog begins to tell the service manager that the exchange is alive, until
// the returned function is called, which waits for the end. An exchange that stops
// counts as alive: a stop has time limits of its own.
func (s *server) feedWatchdog() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.manager.feed(ctx, s.alive, s.status)
	}()
	return func() {
		cancel()
		<-done
	}
}

// alive returns nil while the journal has not failed and every goroutine that takes
// commands answers, before ctx ends, or while the exchange stops.
func (s *server) alive(ctx context.Context) error {
	if why := s.notReady.Load(); why != nil {
		return nil
	}
	if err := s.journal.Err(); err != nil {
		return err
	}
	err := s.engine.Alive(ctx)
	if errors.Is(err, engine.ErrStopped) {
		return nil
	}
	return err
}

// status says in a line how the exchange is.
func (s *server) status() string {
	if err := s.ready(); err != nil {
		return statusLine("not ready: %v", err)
	}
	return statusLine("taking orders")
}
