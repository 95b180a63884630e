package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// attachedTime is how long Start waits for an attached server to accept a connection.
const attachedTime = 5 * time.Second

// errInUse means that something accepts connections at the address on which the server should listen.
var errInUse = errors.New("something else listens there already")

// attached is a server that runs already.
type attached struct {
	addr string
	first
}

// Attached returns a server that runs already. Start waits a few seconds for it to accept a connection,
// Kill returns an error, and Close does not stop it. The error says that addr is malformed.
func Attached(addr string) (Target, error) {
	if _, err := portOf(addr); err != nil {
		return nil, err
	}
	return &attached{addr: addr}, nil
}

// Name is part of Target.
func (a *attached) Name() string { return a.addr }

// Addr is part of Target.
func (a *attached) Addr() string { return a.addr }

// CanKill is part of Target.
func (a *attached) CanKill() bool { return false }

// Log is part of Target.
func (a *attached) Log() string { return "" }

// Close is part of Target.
func (a *attached) Close() error {
	a.drop()
	return nil
}

// Kill is part of Target.
func (a *attached) Kill(context.Context) error {
	return fmt.Errorf("grade: %s was not started by us, so it cannot be killed", a.addr)
}

// Start is part of Target.
func (a *attached) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attachedTime)
	defer cancel()
	for {
		_, err := a.dial(ctx, []string{a.addr})
		if err == nil {
			return nil
		}
		if !pause(ctx, pollTime) {
			return fmt.Errorf("grade: %s accepts no connection: %w", a.addr, err)
		}
	}
}

// portOf returns the port of addr. The error says that addr is not HOST:PORT with a number.
func portOf(addr string) (int, error) {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, fmt.Errorf("grade: address %q is not HOST:PORT: %w", addr, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("grade: address %q has no port from 1 to 65535", addr)
	}
	return int(port), nil
}

// accepts returns the first of addrs that accepts a connection. The error is that of the last.
func accepts(ctx context.Context, addrs []string) (addr string, err error) {
	var f first
	defer f.drop()
	return f.dial(ctx, addrs)
}

// awaitFree waits until nothing accepts connections at addrs, for at most portTime.
func awaitFree(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithTimeout(ctx, portTime)
	defer cancel()
	for {
		addr, err := accepts(ctx, addrs)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil
		case err == nil && !pause(ctx, pollTime):
			return fmt.Errorf("grade: %s: %w", addr, errInUse)
		case err != nil:
			return fmt.Errorf("grade: %v: %w", addrs, ctx.Err())
		}
	}
}

// keepsPort reports whether the kernel keeps a port in use because of closed connections, which lasts a minute. In
// that time a server that does not set SO_REUSEADDR cannot listen there.
func keepsPort(ctx context.Context, port int) bool {
	strict := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
		}), err)
	}}
	l, err := strict.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err == nil {
		err = l.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// pause waits for d, and reports whether ctx has not ended by then.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
