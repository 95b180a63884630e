package jsonrpc

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"outcry/internal/door"
	"outcry/internal/door/jsontext"
	"outcry/internal/engine"
)

// accept reads a request. A command joins the run. Any other request first executes the run, takes effect at once,
// and is queued for its answer. accept returns false if the connection has ended.
func (c *conn) accept(text []byte) bool {
	s := jsontext.NewScanner()
	defer s.Release()
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
	c.run.read++
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
		k.args = args{} // so that a refused request keeps no memory while it waits for its answer
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

// prepare reads the params of a request. It returns a fault if the request is wrong or its client may not make it.
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

// mayJoin reports whether the next request may join the run: it has arrived, and the run is not full.
func (c *conn) mayJoin() bool { return len(c.run.calls) < runMax && c.socket.Buffered() }

// execute executes the run, queues its calls for their answers, and waits if the client is over its rate. It returns
// false if the connection has ended.
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
	read := c.run.read
	clear(c.run.calls)
	c.run = run{calls: c.run.calls[:0]}
	if c.caller != nil {
		c.caller.SlowDown(c.ctx, read)
	}
	return true
}

// together is reusable memory for commands that are executed together.
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

// callSome executes the first of the calls' commands: as many as should go into one Call (Server.Together). It
// returns the number of calls before the first command that was not executed.
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
	if f := c.door.ready(); f != nil { // the server was ready when they were read
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

// call executes one request of each call. It copies the request and its outcome, or the error, into the call. A fault
// of a call means that its request was not executed.
func (c *conn) call(calls []*call, requests []engine.Request, outcomes []door.Outcome) {
	pending, err := c.door.options.Sessions().Call(c.ctx, c.caller, requests, outcomes)
	seq := pending.Seq()
	for i := len(calls) - 1; i >= 0; i-- {
		k := calls[i]
		k.asked[0], k.came[0], k.err = requests[i], outcomes[i], err
		switch {
		case errors.Is(err, door.ErrBusy):
			k.fault = wrong(busy, "the exchange is at its limit of concurrent requests; try again later")
			continue
		case errors.Is(err, door.ErrUnauthorized):
			k.last = true
			k.fault = wrong(unauthenticated, textUnauthenticated)
			continue
		case err != nil:
			continue
		}
		k.pending = pending.Part(k.asked[:], k.came[:])
		// The answer to a command that wrote no record is as of the state just before the next record of the call.
		if k.mark.Seq = seq; outcomes[i].Seq != 0 {
			seq = outcomes[i].Seq - 1
		}
	}
}
