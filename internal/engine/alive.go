package engine

import (
	"context"
	"fmt"

	"outcry/internal/exchange"
)

// Alive returns nil once every owner, the registrar and the desk of each symbol, has
// taken and given back a task, which says that none of them hangs. It disturbs
// trading as little as a query of each symbol would. An error names the first owner
// that did not answer before ctx ended, or is ErrStopped.
func (e *Engine) Alive(ctx context.Context) error {
	t := &task{done: make(chan struct{}, 1)}
	if err := e.ask(ctx, e.registrar.inbox, t); err != nil {
		return fmt.Errorf("engine: ask the registrar for a sign: %w", err)
	}
	var err error
	e.desks.Range(func(sym, d any) bool {
		if err = e.ask(ctx, d.(*desk).inbox, t); err != nil {
			err = fmt.Errorf("engine: ask the desk of %s for a sign: %w", sym.(exchange.Symbol), err)
		}
		return err == nil
	})
	return err
}

// ask sends an owner a task without commands and waits until it comes back. After an
// error the owner may still have it.
func (e *Engine) ask(ctx context.Context, inbox chan<- *task, t *task) error {
	select {
	case inbox <- t:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stop:
		return ErrStopped
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stop:
		return ErrStopped
	}
}
