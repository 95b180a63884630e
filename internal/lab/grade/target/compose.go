package target

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"outcry/internal/process/child"
)

// Bounds of docker compose.
const (
	buildTime    = 10 * time.Minute // time limit for building images, at the first Start
	composeTime  = 60 * time.Second // time limit for any other command
	logLines     = "1000"
	publishedMax = 1 << 20 // bytes of docker compose's output about containers
	staysOpen    = 300 * time.Millisecond
)

// fromOurs are the environment variables that docker compose inherits, besides those that begin with DOCKER_.
var fromOurs = []string{"PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "TMPDIR", "LANG"}

// compose is a service of a Compose file.
type compose struct {
	file, service, project string
	addr                   string // "" while unknown
	asked                  string // the addr given to Compose; may be ""
	environment            []string
	keeper                 *kept // nil while the service is not started; removes the project when it ends
	built                  bool
	log                    *tail // output of docker compose
	printed                *tail // output of the containers, as of the last keepLog
	first
}

// Compose returns a service of a Compose file. Start builds and starts it with its dependencies, in a
// new Compose project. Kill kills all containers of the project and keeps their data. Close removes them with
// their volumes, and so does the keeper if this process is killed. addr is where the service listens, and its port
// is the variable PORT for the file; if addr is "", the first port that the service publishes is used. The file
// decides what its containers may do, so only use one that you trust. The error says that the file or docker is
// missing, or names an invalid service or address.
func Compose(file, service, addr string) (Target, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	if service == "" || strings.HasPrefix(service, "-") {
		return nil, fmt.Errorf("grade: %q is not a service of %s", service, file)
	}
	c := &compose{file: file, service: service, addr: addr, asked: addr, log: &tail{max: LogBytesMax},
		printed: &tail{}}
	c.project = "outcry-grade-" + strings.ToLower(rand.Text()[:12])
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, fmt.Errorf("grade: a Compose file needs docker: %w", err)
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains(fromOurs, name) || strings.HasPrefix(name, "DOCKER_") {
			c.environment = append(c.environment, variable)
		}
	}
	if addr != "" {
		port, err := portOf(addr)
		if err != nil {
			return nil, err
		}
		c.environment = append(c.environment, "PORT="+strconv.Itoa(port))
	}
	return &guarded{Target: c}, nil
}

// Name is part of Target.
func (c *compose) Name() string { return c.service + " of " + filepath.Base(c.file) }

// Addr is part of Target.
func (c *compose) Addr() string { return c.addr }

// CanKill is part of Target.
func (c *compose) CanKill() bool { return true }

// arguments returns a command line of docker compose for this project.
func (c *compose) arguments(arguments ...string) []string {
	return append([]string{"docker", "compose", "--file", c.file, "--project-name", c.project}, arguments...)
}

// run runs docker compose, and kills it after most. Its output goes to the log, except that standard output
// goes to out if out is not nil.
func (c *compose) run(ctx context.Context, most time.Duration, out io.Writer, arguments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	runtime.LockOSThread() // the kernel kills the process when the thread that started it ends
	defer runtime.UnlockOSThread()
	line := c.arguments(arguments...)
	process := exec.CommandContext(ctx, line[0], line[1:]...)
	process.Env, process.Stdout, process.Stderr = c.environment, c.log, c.log
	if out != nil {
		process.Stdout = out
	}
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the compose plugin is a child process
	child.EndWithThread(process.SysProcAttr, syscall.SIGKILL)
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	process.WaitDelay = drainMax
	if err := process.Run(); err != nil {
		return fmt.Errorf("grade: docker compose %s: %w; it printed: %s",
			arguments[0], errors.Join(err, ctx.Err()), c.log.last(logInError))
	}
	return nil
}

// Start is part of Target.
func (c *compose) Start(ctx context.Context) error {
	if c.asked != "" {
		if _, err := accepts(ctx, []string{c.asked}); err == nil {
			return fmt.Errorf("%w: cannot start %s at %s: %w", ErrNotTried, c.Name(), c.asked, errInUse)
		}
	}
	if c.keeper == nil {
		var err error
		last := c.arguments("down", "--volumes", "--remove-orphans", "--timeout", "0")
		if c.keeper, err = startKeeper(spec{UID: -1, GID: -1, Last: last}, c.environment, "", c.log); err != nil {
			return err
		}
	}
	if !c.built {
		if err := c.run(ctx, buildTime, nil, "build", c.service); err != nil {
			return errors.Join(err, c.Close())
		}
		c.built = true
	}
	err := c.run(ctx, composeTime, nil, "up", "--detach", "--no-build", c.service)
	if err == nil && c.asked == "" {
		c.addr, err = c.published(ctx)
	}
	if err == nil {
		err = c.ready(ctx)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// ready waits until the service accepts a connection and keeps it open: docker's proxy also accepts
// connections to a container in which nothing listens, and then closes them.
func (c *compose) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyTime)
	defer cancel()
	for {
		err := c.keeps(ctx)
		if err == nil {
			return nil
		}
		if !pause(ctx, pollTime) {
			c.keepLog()
			return fmt.Errorf("grade: no connection to %s at %s within %v: %w; it printed: %s",
				c.Name(), c.addr, ReadyTime, err, c.printed.last(logInError))
		}
	}
}

// keeps returns nil if addr accepts a connection and does not close it at once.
func (c *compose) keeps(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	err = conn.SetReadDeadline(time.Now().Add(staysOpen))
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err = conn.SetReadDeadline(time.Time{}); err == nil {
			c.keep(conn)
			return nil
		}
	}
	return errors.Join(err, conn.Close())
}

// published returns the address of the first TCP port that the service publishes.
func (c *compose) published(ctx context.Context) (string, error) {
	out := &tail{max: publishedMax}
	if err := c.run(ctx, composeTime, out, "ps", "--format", "json", c.service); err != nil {
		return "", err
	}
	type container struct {
		Publishers []struct {
			URL           string
			Protocol      string
			PublishedPort uint16
		}
	}
	// Each line is one container; earlier versions print an array.
	for decoder := json.NewDecoder(strings.NewReader(out.String())); decoder.More(); {
		var text json.RawMessage
		if err := decoder.Decode(&text); err != nil {
			return "", fmt.Errorf("grade: docker compose ps: %w", err)
		}
		var containers []container
		if json.Unmarshal(text, &containers) != nil {
			containers = make([]container, 1)
			if err := json.Unmarshal(text, &containers[0]); err != nil {
				return "", fmt.Errorf("grade: docker compose ps: %w", err)
			}
		}
		for _, one := range containers {
			for _, p := range one.Publishers {
				if p.PublishedPort != 0 && (p.Protocol == "" || p.Protocol == "tcp") {
					return net.JoinHostPort(reachable(p.URL), strconv.Itoa(int(p.PublishedPort))), nil
				}
			}
		}
	}
	return "", fmt.Errorf("grade: %s publishes no TCP port; give its address", c.Name())
}

// reachable returns the host to dial for a host at which a port is published.
func reachable(host string) string {
	switch host {
	case "", "0.0.0.0", "::":
		return "127.0.0.1"
	}
	return host
}

// keepLog replaces printed with the containers' latest output.
func (c *compose) keepLog() {
	printed := &tail{max: LogBytesMax / 2}
	// If this fails, only the log is shorter.
	_ = c.run(context.Background(), composeTime, printed, "logs", "--no-color", "--no-log-prefix", "--tail", logLines)
	c.printed = printed
}

// Kill is part of Target.
func (c *compose) Kill(ctx context.Context) error {
	c.drop()
	if c.keeper == nil {
		return nil
	}
	if err := c.run(ctx, composeTime, nil, "kill"); err != nil {
		return err
	}
	return awaitFree(ctx, []string{c.addr})
}

// Log is part of Target.
func (c *compose) Log() string {
	if c.keeper != nil {
		c.keepLog()
	}
	return c.log.last(LogBytesMax/2) + c.printed.String()
}

// Close is part of Target.
func (c *compose) Close() error {
	c.drop()
	if c.keeper == nil {
		return nil
	}
	c.keepLog()
	err := c.keeper.end(false)
	c.keeper = nil
	return err
}
