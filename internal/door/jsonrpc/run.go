package jsonrpc

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"outcry/internal/door"
	"outcry/internal/engine"
)

// take reads a request. A command joins the run; anything else is done at once, behind it, and has it answered. It
// reports false if the connection has ended.
func (c *conn) take(text []byte) bool {
	s := scanners.Get().(*scanner)
	defer s.release()
	k := calls.Get().(*call)
	k.size = len(text)
	k.fault = k.parse(s, text)
	k.id = bytes.Clone(k.id)
	if k.fault == nil {
		k.fault = c.prepare(k)
	}
	joins := k.fault != nil || c.mayChange(k.method)
	if !joins && !c.execute() {
		return false
	}
	c.run.taken++
	if k.fault == nil {
		if k.method.reads {
			k.mark = c.mark()
		}
		if k.method.begin != nil {
			k.fault = k.method.begin(c, k)
		}
	}
	k.args.params = value{}
	if k.fault != nil {
		k.args = args{} // what waits for its answer is small, whatever was sent
	}
	if !joins {
		return c.enqueue(k)
	}
	c.run.calls = append(c.run.calls, k)
	if k.fault == nil {
		c.run.commands++
	}
	return true
}

// prepare reads the params, and says why the request is refused before anything is done.
func (c *conn) prepare(k *call) *fault {
	m := k.method
	guarded := c.door.options.Tokens != nil && m.access != forAll
	if guarded && c.grant == nil {
		return wrong(unauthenticated, textUnauthenticated)
	}
	if f := m.read(&k.args, c.one); f != nil {
		return f
	}
	switch m.access {
	case forMarket:
		return c.mayRead()
	case forAccount:
		if f := c.mayActFor(k.args.Account); f != nil {
			return f
		}
		return c.door.ready()
	case forBearers:
		return c.mayHear(k)
	case forAll:
	}
	return nil
}

// goesOn reports whether the next request may join the run: it has arrived, and there is room.
func (c *conn) goesOn() bool { return len(c.run.calls) < runMax && c.socket.Buffered() }

// execute executes the run, has it answered, and slows the client down if it is over its rate. It reports false if the
// connection has ended.
func (c *conn) execute() bool {
	if c.run.commands > 0 && !c.waitForReads() {
		return false
	}
	for rest := c.run.calls; len(rest) > 0; {
		n := c.callSome(rest)
		if !c.enqueue(rest[:n]...) {
			return false
		}
		rest = rest[n:]
	}
	taken := c.run.taken
	clear(c.run.calls)
	c.run = run{calls: c.run.calls[:0]}
	if c.caller != nil {
		c.caller.SlowDown(c.ctx, taken)
	}
	return true
}

// together is memory for commands that are executed together, which is used again.
type together struct {
	calls    []*call
	requests []engine.Request
	outcomes []door.Outcome
}

var togethers = sync.Pool{New: func() any { return new(together) }}

func (t *together) release() {
	clear(t.calls)
	clear(t.requests)
	clear(t.outcomes)
	*t = together{t.calls[:0], t.requests[:0], t.outcomes[:0]}
	togethers.Put(t)
}

// callSome executes the first commands among calls, those that go together, and returns how many calls that was, with
// those up to the next command.
func (c *conn) callSome(calls []*call) (n int) {
	t := togethers.Get().(*together)
	defer t.release()
	for _, k := range calls {
		if k.fault == nil {
			t.calls, t.requests = append(t.calls, k), append(t.requests, k.asked[0])
		}
	}
	if len(t.calls) == 0 {
		return len(calls)
	}
	if f := c.door.ready(); f != nil { // it was when they were read
		for _, k := range t.calls {
			k.fault = f
		}
		return len(calls)
	}
	some := c.door.options.Sessions().Together(t.requests)
	t.outcomes = slices.Grow(t.outcomes, some)[:some]
	c.call(t.calls[:some], t.requests[:some], t.outcomes)
	if some < len(t.calls) {
		return slices.Index(calls, t.calls[some])
	}
	return len(calls)
}

// call executes requests as the client's, each of one call, which has copies then. A fault says that nothing was done.
func (c *conn) call(calls []*call, requests []engine.Request, outcomes []door.Outcome) {
	pending, err := c.door.options.Sessions().Call(c.ctx, c.caller, requests, outcomes)
	seq := pending.Seq()
	for i := len(calls) - 1; i >= 0; i-- {
		k := calls[i]
		k.asked[0], k.came[0], k.err = requests[i], outcomes[i], err
		switch {
		case errors.Is(err, door.ErrBusy):
			k.fault = wrong(busy, "the exchange has as many requests under way as it takes; try again later")
			continue
		case errors.Is(err, door.ErrUnauthorized):
			k.last = true
			k.fault = wrong(unauthenticated, textUnauthenticated)
			continue
		case err != nil:
			continue
		}
		k.pending = pending.Part(k.asked[:], k.came[:])
		// What wrote no record is told as of before the next command that did, as if that had not come yet.
		if k.mark.Seq = seq; outcomes[i].Seq != 0 {
			seq = outcomes[i].Seq - 1
		}
	}
}
