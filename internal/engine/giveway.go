package engine

import "outcry/internal/exchange"

// giveWayMax is how many tasks a shard looks at between two parts of an order.
const giveWayMax = 256

// giveWay serves other tasks between two parts of an order. Tasks that only read this symbol are
// executed: queries and liveness checks. All others are set aside, in order, until the order has
// ended. giveWay does not wait. The error is ErrStopped if the engine is being closed;
// the order then stays unfinished until the next start.
func (d *shard) giveWay() error {
	in := &d.inbox
	if in.engine.interrupted.Load() {
		return ErrStopped
	}
	in.answerMidOrder()
	for range giveWayMax {
		if len(in.kept) >= keptMax {
			return nil // no room to set tasks aside: they stay in the inbox
		}
		select {
		case t := <-in.tasks:
			if t != nil && !in.read(t) {
				in.setAside(t)
			}
		default:
			return nil
		}
	}
	return nil
}

// answerMidOrder answers the requests that can be answered between two parts of an order, and leaves the
// others in the queue.
func (in *inbox) answerMidOrder() {
	if !in.hasRequests.Load() {
		return
	}
	in.mu.Lock()
	requests := in.requests
	in.requests = nil
	in.mu.Unlock()
	var later []*task
	for _, t := range requests {
		if t.request.answerMidOrder() {
			t.done <- struct{}{}
		} else {
			later = append(later, t)
		}
	}
	in.mu.Lock()
	in.requests = append(later, in.requests...)
	in.hasRequests.Store(len(in.requests) > 0)
	in.mu.Unlock()
}

// read executes the commands of a task up to the first that may write to this owner's book.
// It returns false if there is such a command; otherwise it passes the task on.
func (in *inbox) read(t *task) (passed bool) {
	t.clock.startWork()
	e, next := in.engine, in
	for next == in && t.next < len(t.commands) {
		c, r := &t.commands[t.next], &t.results[t.next]
		if c.Kind != exchange.QueryOrder && c.Kind != exchange.ShowOrder {
			t.clock.stopWork()
			return false
		}
		_ = in.owner.do(c, r, 0) // reads return no error and do not use the time
		t.appended = false
		if t.next++; t.next < len(t.commands) {
			next = e.owner(&t.commands[t.next].Command, &t.results[t.next], &t.refs)
		}
	}
	t.clock.stopWork()
	if !e.pass(t, next) {
		t.done <- struct{}{}
	}
	return true
}
