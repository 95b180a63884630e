package engine

import (
	"context"
	"fmt"
)

// Alive returns nil once every owner that has work, the registrar and shards, has given a
// sign: between two commands, or between two parts of an order. It says that none of them
// hangs. Owners at rest have nothing to hang on and are not asked. An error names the
// first owner that did not answer before ctx ended, or is ErrStopped.
func (e *Engine) Alive(ctx context.Context) error {
	type sign struct {
		of *inbox
		task
	}
	var signs []*sign
	for _, in := range e.awakeNow() {
		s := &sign{of: in, task: task{done: make(chan struct{}, 1)}}
		sent, err := in.putUrgent(&s.task, false)
		if err != nil {
			return fmt.Errorf("engine: ask %s for a sign: %w", in.owner, err)
		}
		if sent {
			signs = append(signs, s)
		}
	}
	for _, s := range signs {
		select {
		case <-s.done:
		case <-ctx.Done():
			return fmt.Errorf("engine: ask %s for a sign: %w", s.of.owner, ctx.Err())
		case <-e.stop:
			return fmt.Errorf("engine: ask %s for a sign: %w", s.of.owner, ErrStopped)
		}
	}
	return nil
}

// String names the owner in errors.
func (d *shard) String() string { return "the shard of " + string(d.symbol) }

// String names the owner in errors.
func (r *registrar) String() string { return "the registrar" }
