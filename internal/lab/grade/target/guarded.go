package target

import (
	"context"
	"errors"
	"sync"
)

// guarded is a target that cannot be started again after Close: an abandoned case may still be restarting the
// server at that time.
type guarded struct {
	Target
	mu     sync.Mutex // held while one of the methods below runs
	closed bool
}

// errClosed is the error of Start and Kill after Close.
var errClosed = errors.New("grade: the server was closed")

// Start is part of Target.
func (g *guarded) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	return g.Target.Start(ctx)
}

// Kill is part of Target.
func (g *guarded) Kill(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	return g.Target.Kill(ctx)
}

// Log is part of Target.
func (g *guarded) Log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Target.Log()
}

// Addr is part of Target.
func (g *guarded) Addr() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Target.Addr()
}

// Close is part of Target.
func (g *guarded) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	return g.Target.Close()
}
