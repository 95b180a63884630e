package engine

import "outcry/internal/exchange"

// giveWayMax is how many tasks a shard looks at between two parts of an order.
const giveWayMax = 256

// giveWay lets others have their turn between two parts of an order. What only reads of
// this symbol is done: queries, and signs of life. Everything else is kept, in order, for
// after the order. It does not wait. The error is ErrStopped: the engine is being closed,
// and the order stays unfinished until the next start.
func (d *shard) giveWay() error {
	in := &d.inbox
	if in.engine.interrupted.Load() {
		return ErrStopped
	}
	in.signBetween()
	for range giveWayMax {
		if len(in.kept) >= keptMax {
			return nil // they wait in the inbox
		}
		select {
		case t := <-in.tasks:
			if t != nil && !in.read(t) {
				in.kept = append(in.kept, t)
			}
		default:
			return nil
		}
	}
	return nil
}

// signBetween answers what is urgent and can be answered in the middle of an order; the
// rest stays where it is.
func (in *inbox) signBetween() {
	if !in.asked.Load() {
		return
	}
	in.mu.Lock()
	urgent := in.urgent
	in.urgent = nil
	in.mu.Unlock()
	var later []*task
	for _, t := range urgent {
		if t.work == nil || t.between != nil && t.between() {
			t.done <- struct{}{}
		} else {
			later = append(later, t)
		}
	}
	in.mu.Lock()
	in.urgent = append(later, in.urgent...)
	in.asked.Store(len(in.urgent) > 0)
	in.mu.Unlock()
}

// read does the commands of a task up to the first that may write to this owner's book.
// It returns false where there is one; otherwise the task is passed on.
func (in *inbox) read(t *task) (passed bool) {
	t.clock.take()
	e, next := in.engine, in
	for next == in && t.next < len(t.commands) {
		c, r := &t.commands[t.next], &t.results[t.next]
		if c.Kind != exchange.QueryOrder && c.Kind != exchange.ShowOrder {
			t.clock.give()
			return false
		}
		_ = in.owner.do(c, r, 0) // reads make no error and have no time
		if t.next++; t.next < len(t.commands) {
			next = e.owner(&t.commands[t.next].Command, &t.results[t.next], &t.refs)
		}
	}
	t.clock.give()
	if !e.pass(t, next) {
		t.done <- struct{}{}
	}
	return true
}
