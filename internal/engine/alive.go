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
	asked := make(map[*inbox]*task)
	for _, in := range e.awakeNow() {
		t := &task{request: sign{}, done: make(chan struct{}, 1)}
		if err := in.offer(t); err != nil {
			return fmt.Errorf("engine: ask %s for a sign: %w", in.owner, err)
		}
		asked[in] = t
	}
	for in, t := range asked {
		select {
		case <-t.done:
		case <-ctx.Done():
			return fmt.Errorf("engine: ask %s for a sign: %w", in.owner, ctx.Err())
		case <-e.stop:
			return fmt.Errorf("engine: ask %s for a sign: %w", in.owner, ErrStopped)
		}
	}
	return nil
}

// sign is a request for nothing but an answer.
type sign struct{}

func (sign) do() error  { return nil }
func (sign) amid() bool { return true }

// String names the owner in errors.
func (d *shard) String() string { return "the shard of " + string(d.symbol) }

// String names the owner in errors.
func (r *registrar) String() string { return "the registrar" }
