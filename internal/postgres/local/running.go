package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNotRunning means that the cluster is not running.
var ErrNotRunning = errors.New("the cluster is not running")

// RunningURL returns the connection URL of the cluster in dir, which another process runs. Only root and the
// user as whom Postgres runs can connect. The error is ErrNotRunning, or says why the socket cannot be
// reached.
func RunningURL(dir string) (string, error) {
	socket, err := runningSocket(dir)
	if err != nil {
		return "", fmt.Errorf("cluster: %s: %w", dir, err)
	}
	return urlOf(socket, role), nil
}

// urlOf returns the connection URL of a user through the socket in a folder.
func urlOf(socket, user string) string {
	q := url.Values{"host": {socket}, "port": {port}, "user": {user}, "sslmode": {"disable"}}
	return "postgres:///" + database + "?" + q.Encode()
}

// runningSocket returns the folder of the socket. If the cluster runs with a private /tmp, as a service of
// systemd may, it returns the path through /proc.
func runningSocket(dir string) (string, error) {
	target, err := os.Readlink(filepath.Join(dir, socketLink))
	if errors.Is(err, os.ErrNotExist) {
		return "", ErrNotRunning
	}
	if err != nil {
		return "", err
	}
	file := ".s.PGSQL." + port
	if _, err = os.Stat(filepath.Join(target, file)); err == nil {
		return target, nil
	}
	b, readErr := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if errors.Is(readErr, os.ErrNotExist) {
		return "", ErrNotRunning
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, pidErr := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(readErr, pidErr); err != nil {
		return "", err
	}
	elsewhere := filepath.Join("/proc", strconv.Itoa(pid), "root", target)
	_, elsewhereErr := os.Stat(filepath.Join(elsewhere, file))
	switch {
	case elsewhereErr == nil:
		return elsewhere, nil
	case errors.Is(err, os.ErrNotExist) && errors.Is(elsewhereErr, os.ErrNotExist):
		return "", ErrNotRunning // a killed process left the link
	}
	return "", err
}

// existingStopTimeout bounds how long a cluster of StartExisting may take to stop.
const existingStopTimeout = 20 * time.Second

// StartExisting starts the cluster in dir for a command that only needs its database for a while. It returns an
// error if there is no cluster in dir. stop stops the cluster; a failure of that is only printed to stderr, since
// the command's result does not depend on it. Warnings of the cluster are printed there too.
func StartExisting(ctx context.Context, dir string, stderr io.Writer) (url string, stop func(), err error) {
	if _, err := os.Stat(filepath.Join(dir, "data")); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil, fmt.Errorf("there is no local cluster in %s; name the database with --database-url", dir)
	} else if err != nil {
		return "", nil, err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c, err := Start(ctx, Options{Dir: dir, Log: log})
	if err != nil {
		return "", nil, err
	}
	return c.URL(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), existingStopTimeout)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			fmt.Fprintf(stderr, "outcry: %v\n", err)
		}
	}, nil
}
