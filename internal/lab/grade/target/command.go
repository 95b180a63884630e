package target

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Ports chosen for a server are below those that systems give to outgoing connections, so that no
// connection of the kit occupies the port when the server is restarted.
const (
	portLeast  = 20000
	portCount  = 10000
	portsTried = 100
)

// logInError is how many bytes of the end of a server's log an error of Start quotes.
const logInError = 2 << 10

// againTime is how long Start waits before it retries.
const againTime = time.Second

// errEnded means that a command ended before its server was ready.
var errEnded = errors.New("the command ended")

// command is a server that a shell command starts.
type command struct {
	o       Options
	account account
	another bool     // account is not the kit's own user
	addrs   []string // where the server may listen
	addr    string   // where the server listens
	port    int
	scratch string // temporary folder of the server, from the first Start to Close
	began   bool   // the server was ready once
	keeper  *kept  // nil while the server is not started
	log     *tail
	first
}

// Command returns a server that a shell command starts. If the kit runs as root, the server runs as another user.
// The server runs within limits, with a clean environment (PORT, PATH, HOME, TMPDIR, USER, LOGNAME, LANG) and
// without the kit's open files. If the error names an invalid option, nothing was started or changed.
func Command(o Options) (Target, error) {
	if o.Command == "" {
		return nil, errors.New("grade: there is no command to start")
	}
	c := &command{o: o, log: &tail{max: LogBytesMax}}
	var err error
	if c.o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	if info, err := os.Stat(c.o.Dir); err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("grade: %s is not a folder", c.o.Dir)
	}
	if c.account, c.another, err = accountOf(o.User); err != nil {
		return nil, err
	}
	if err := c.choosePort(); err != nil {
		return nil, err
	}
	c.o.Limits = Limits{
		Memory:    cmp.Or(o.Limits.Memory, DefaultLimits.Memory),
		Processes: cmp.Or(o.Limits.Processes, DefaultLimits.Processes),
		Files:     cmp.Or(o.Limits.Files, DefaultLimits.Files),
		FileSize:  cmp.Or(o.Limits.FileSize, DefaultLimits.FileSize),
	}
	return &guarded{Target: c}, nil
}

// choosePort sets the addresses at which the server may listen: that of Options, or a free port.
func (c *command) choosePort() (err error) {
	if c.o.Addr != "" {
		c.port, err = portOf(c.o.Addr)
		c.addr, c.addrs = c.o.Addr, []string{c.o.Addr}
		return err
	}
	for range portsTried {
		n, err := rand.Int(rand.Reader, big.NewInt(portCount))
		if err != nil {
			return fmt.Errorf("grade: %w", err)
		}
		c.port = portLeast + int(n.Int64())
		l, err := net.Listen("tcp", ":"+strconv.Itoa(c.port))
		if err != nil {
			continue
		}
		// A server that listens at "localhost" may listen at ::1 only.
		for _, host := range []string{"127.0.0.1", "::1"} {
			c.addrs = append(c.addrs, net.JoinHostPort(host, strconv.Itoa(c.port)))
		}
		c.addr = c.addrs[0]
		return l.Close()
	}
	return fmt.Errorf("grade: no port from %d to %d is free", portLeast, portLeast+portCount-1)
}

// Name is part of Target.
func (c *command) Name() string { return c.o.Command }

// Addr is part of Target.
func (c *command) Addr() string { return c.addr }

// CanKill is part of Target.
func (c *command) CanKill() bool { return true }

// Log is part of Target.
func (c *command) Log() string { return c.log.String() }

// Start is part of Target. It returns ErrNotTried if the server's port is in use, if the server could read or write
// what Options forbids, or if it could not enter its folder or read files that it needs.
func (c *command) Start(ctx context.Context) error {
	if c.keeper != nil {
		return fmt.Errorf("grade: %s runs already", c.o.Command)
	}
	if err := c.prepare(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotTried, err)
	}
	if addr, err := accepts(ctx, c.addrs); err == nil {
		return fmt.Errorf("%w: cannot start it at %s: %w", ErrNotTried, addr, errInUse)
	}
	ctx, cancel := context.WithTimeout(ctx, ReadyTime)
	defer cancel()
	for {
		keeps := c.began && keepsPort(ctx, c.port) // because of connections to the killed server
		err := c.startOnce(ctx)
		if err == nil {
			c.began = true
			return nil
		}
		if !keeps || !errors.Is(err, errEnded) || !pause(ctx, againTime) {
			return err
		}
	}
}

// prepare makes the server's temporary folder, and checks that its user has neither too much access nor too little.
func (c *command) prepare() error {
	if c.another {
		if err := c.account.guard(c.o.Hidden, c.o.Results); err != nil {
			return err
		}
	}
	if c.scratch != "" {
		return nil
	}
	parent := "" // the kit's default, which may be closed to other users
	if c.another {
		if err := c.account.needs(c.o.Dir, c.o.Reads); err != nil {
			return err
		}
		parent = "/tmp"
	}
	scratch, err := os.MkdirTemp(parent, "outcry-grade-")
	if err != nil {
		return fmt.Errorf("grade: %w", err)
	}
	c.scratch = scratch
	if c.another {
		if err := os.Chown(scratch, int(c.account.UID), int(c.account.GID)); err != nil {
			return fmt.Errorf("grade: %w", err)
		}
	}
	return nil
}

// startOnce starts the server, and waits until it is ready. After an error, no process of the server runs.
func (c *command) startOnce(ctx context.Context) (err error) {
	s := spec{Command: c.o.Command, Dir: c.o.Dir, UID: -1, GID: -1, Limits: c.o.Limits, Scratch: c.scratch}
	if c.another {
		s.UID, s.GID = int(c.account.UID), int(c.account.GID)
	}
	mark := rand.Text()
	c.keeper, err = startKeeper(s, c.account.environment(c.port, c.scratch, mark), mark, c.log)
	if err != nil {
		return err
	}
	for {
		addr, err := c.dial(ctx, c.addrs)
		if err == nil {
			c.addr = addr
			return nil
		}
		select {
		case <-c.keeper.exited:
			err = fmt.Errorf("%w (%s)", errEnded, c.keeper.how())
		case <-ctx.Done():
			err = fmt.Errorf("it accepted none within %v; does it listen at the port in PORT?", ReadyTime)
		case <-time.After(pollTime):
			continue
		}
		return errors.Join(fmt.Errorf("grade: no connection to %s at port %d: %w; %s",
			c.o.Command, c.port, err, c.log.inError()), c.kill(true))
	}
}

// kill kills the server, if it was started. If keepScratch is true, its temporary folder is kept.
func (c *command) kill(keepScratch bool) error {
	c.drop()
	if c.keeper == nil {
		return nil
	}
	err := c.keeper.end(keepScratch)
	c.keeper = nil
	return err
}

// Kill is part of Target.
func (c *command) Kill(ctx context.Context) error {
	if err := c.kill(true); err != nil {
		return err
	}
	return awaitFree(ctx, c.addrs)
}

// Close is part of Target.
func (c *command) Close() error {
	err := c.kill(false)
	if c.scratch != "" {
		err = errors.Join(err, os.RemoveAll(c.scratch))
		c.scratch = ""
	}
	return err
}
