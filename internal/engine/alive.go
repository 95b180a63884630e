package engine

import (
	"context"
	"fmt"
)

// Alive returns nil once every owner that has a goroutine, the registrar or a shard, has responded
// between two commands or between two parts of an order: so none of them hangs. Idle owners
// have no goroutine that could hang and are skipped. An error names the
// first owner that did not respond before ctx ended, or is ErrStopped.
func (e *Engine) Alive(ctx context.Context) error {
	asked := make(map[*inbox]*task)
	for _, in := range e.awakeNow() {
		t := &task{request: sign{}, done: make(chan struct{}, 1)}
		if err := in.offer(t); err != nil {
			return fmt.Errorf("engine: no response from %s: %w", in.owner, err)
		}
		asked[in] = t
	}
	for in, t := range asked {
		select {
		case <-t.done:
		case <-ctx.Done():
			return fmt.Errorf("engine: no response from %s: %w", in.owner, ctx.Err())
		case <-e.stop:
			return fmt.Errorf("engine: no response from %s: %w", in.owner, ErrStopped)
		}
	}
	return nil
}

// sign is a request that only asks for a response.
type sign struct{}

func (sign) do() error            { return nil }
func (sign) answerMidOrder() bool { return true }

// String returns the shard's name for errors.
func (d *shard) String() string { return "the shard of " + string(d.symbol) }

// String returns the registrar's name for errors.
func (r *registrar) String() string { return "the registrar" }
