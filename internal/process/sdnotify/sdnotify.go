// Package sdnotify reports a program's state to a service manager, as sd_notify(3) describes, and feeds its
// watchdog. It does not depend on the exchange.
package sdnotify

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

	"golang.org/x/sys/unix"
)

// timeout bounds how long it may take to send a message to the service manager.
const timeout = time.Second

// Notifier reports to the service manager. A nil Notifier does nothing. Its methods may be called from any
// goroutine.
type Notifier struct {
	conn     net.Conn
	watchdog time.Duration // the service manager ends the program if it gets no message for this long; 0 for never
	log      *slog.Logger
	environ  []string // the variables that New removed
}

// New connects to the service manager that the environment names. It removes the variables from the
// environment, so that a child process, such as Postgres, does not report in the program's name. It returns
// nil if no service manager is named. The error names the variable that is wrong.
func New(log *slog.Logger) (*Notifier, error) {
	socket, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	var environ []string
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if value, there := os.LookupEnv(name); there {
			environ = append(environ, name+"="+value)
		}
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if socket == "" {
		return nil, nil
	}
	n := &Notifier{log: log, environ: environ}
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

// Environ returns the variables that New removed from the environment, for a program that replaces this one
// in its process.
func (n *Notifier) Environ() []string {
	if n == nil {
		return nil
	}
	return n.environ
}

// Tell sends assignments, such as READY=1, in one message. An error is only logged, as the exchange can do
// without a service manager.
func (n *Notifier) Tell(assignments ...string) {
	if n == nil {
		return
	}
	message := strings.Join(assignments, "\n")
	err := n.conn.SetWriteDeadline(time.Now().Add(timeout))
	if err == nil {
		_, err = n.conn.Write([]byte(message))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		n.log.Warn("the service manager cannot be notified", "message", message, "error", err)
	}
}

// Status returns the assignment with the line of text that `systemctl status` shows.
func Status(format string, a ...any) string {
	return "STATUS=" + strings.ReplaceAll(fmt.Sprintf(format, a...), "\n", " ")
}

// Feed reports to the watchdog, twice per interval, that the exchange is alive, each time after alive has
// returned nil in time. It returns when ctx ends.
func (n *Notifier) Feed(ctx context.Context, alive func(context.Context) error, state func() string) {
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
			n.Tell("WATCHDOG=1", state())
		default:
			n.log.Error("the exchange does not answer, and the service manager may end it",
				"error", err, "watchdog", n.watchdog.String())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close closes the connection to the service manager.
func (n *Notifier) Close() {
	if n != nil {
		_ = n.conn.Close() // everything has been sent
	}
}

// Monotonic returns the assignment with the time at which a reload began.
func Monotonic() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return ""
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)
}
