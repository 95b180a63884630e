package door

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// What Answer and Call refuse as a whole: nothing was done.
var (
	// ErrBusy says that as many frames or requests are under way as may be.
	ErrBusy = errors.New("session: too many frames are under way")
	// ErrUnauthorized says that a token is asked for, and the caller has none, or that it has ended.
	ErrUnauthorized = errors.New("session: the caller has no token, or it has ended")
)

// Outcome is what one request of a Call came to.
type Outcome struct {
	exchange.Result
	// Refusal is why the request was not given to the exchange, with its text: what the token does not allow, or the rate
	// of an account. Its Reason is that of Result too. The zero value if it was given.
	Refusal exchange.Refusal
}

// Pending is a Call whose outcomes may not be told yet. It must not be copied once one of its methods was called.
type Pending struct {
	server      *Server
	requests    []engine.Request
	outcomes    []Outcome
	mark        engine.Mark
	begun       time.Time
	release     func() // of what bounds callers of Request; nil for others
	unavailable bool   // the history is not asked
}

// called is memory of a Call, which is used again.
type called struct {
	commands []engine.Request
	results  []exchange.Result
}

// Call does requests in their order, those that the caller's token and the rates allow, and fills outcomes, which has
// the same length. It sets what a Request says beside the Command. Nothing of the outcomes may be told before
// Pending.Wait has returned nil, refusals included. Pending has both slices until then. ShowOrder cannot be asked for.
//
// ErrBusy and ErrUnauthorized say that nothing was done. Any other error means that the exchange has failed or is
// stopping, or is ctx's: what was done is unknown then, and nothing may be told.
func (s *Server) Call(
	ctx context.Context, caller *Caller, requests []engine.Request, outcomes []Outcome,
) (p Pending, err error) {
	if s.aborted.Load() {
		return p, ErrAborted
	}
	if s.options.Tokens != nil && (caller.grant == nil || caller.grant.Err() != nil) {
		return p, ErrUnauthorized
	}
	p = Pending{server: s, requests: requests, outcomes: outcomes, begun: time.Now()}
	w, _ := s.calls.Get().(*called)
	if w == nil {
		w = new(called)
	}
	caller.judge(&p, w)
	if !p.enter(caller, w.commands) {
		s.putCalled(w)
		return p, ErrBusy
	}
	if n := len(w.commands); cap(w.results) < n {
		w.results = make([]exchange.Result, n)
	}
	w.results = w.results[:len(w.commands)]
	if len(w.commands) > 0 {
		if p.mark, err = s.exchange.Execute(ctx, w.commands, w.results); err != nil {
			p.leave()
			return p, fmt.Errorf("session: execute %d requests: %w", len(requests), err) // who has w now is unknown
		}
	}
	p.fill(w.results)
	s.putCalled(w)
	return p, nil
}

// Together returns how many requests, from the first on, are to be given to one Call if each outcome is told by
// itself: those behind may have to wait for the history, and no other outcome should with them. It is 0 of none.
func (s *Server) Together(requests []engine.Request) int {
	if len(requests) < 2 {
		return len(requests)
	}
	return max(1, s.exchange.Ready(requests))
}

// Part returns the Pending of one request alone, for those who tell each outcome by itself: it has copies of what p was
// called with, whose memory is the caller's again. What is said of p holds for each part then, and p is not used. It is
// for callers that Enter let in.
func (p *Pending) Part(request []engine.Request, outcome []Outcome) Pending {
	return Pending{server: p.server, requests: request, outcomes: outcome, mark: p.mark, begun: p.begun}
}

// putCalled keeps memory for the next Call, unless it is much.
func (s *Server) putCalled(w *called) {
	clear(w.commands)
	clear(w.results)
	if cap(w.commands) <= callsKeep {
		w.commands, w.results = w.commands[:0], w.results[:0]
		s.calls.Put(w)
	}
}

// judge takes the requests that are done into w, and says of the others why they are not.
func (c *Caller) judge(p *Pending, w *called) {
	j := c.server.judgeOf(c.grant)
	for i := range p.requests {
		q, o := &p.requests[i], &p.outcomes[i]
		*o = Outcome{}
		if j != nil {
			if o.Refusal = j.judge(q); o.Refusal.Reason != exchange.OK {
				o.Reason = o.Refusal.Reason
				continue
			}
		}
		if q.OnDisconnect {
			q.Origin = c.begins()
		}
		w.commands = append(w.commands, *q)
	}
}

// enter bounds what is executed for callers of Request, and reports whether there is room for this one.
func (p *Pending) enter(c *Caller, commands []engine.Request) bool {
	s := p.server
	if c.connected {
		return true
	}
	if !s.answering.TryAcquire(1) {
		return false
	}
	late := s.exchange.Ready(commands) < len(commands)
	if late && !s.lateAnswers.TryAcquire(1) {
		s.answering.Release(1)
		return false
	}
	p.release = func() {
		if late {
			s.lateAnswers.Release(1)
		}
		s.answering.Release(1)
	}
	return true
}

// leave takes back what enter took.
func (p *Pending) leave() {
	if p.release != nil {
		p.release()
		p.release = nil
	}
}

// fill takes over the results of the requests that were done.
func (p *Pending) fill(results []exchange.Result) {
	next := 0
	for i := range p.outcomes {
		o := &p.outcomes[i]
		if o.Refusal.Reason != exchange.OK {
			continue
		}
		o.Result = results[next]
		p.hide(&o.Result)
		next++
	}
}

// hide tells nobody which orders others have, where tokens are asked for.
func (p *Pending) hide(r *exchange.Result) {
	if r.Reason == exchange.ForeignOrder && p.server.options.Tokens != nil {
		r.Reason = exchange.UnknownOrder
	}
}

// Complete asks the history and the view for outcomes that Call left as InHistory or InView: none is left then. Of an
// order in the history it loads up to ReportExecutionsMax + 1 executions. It may wait for the database, each time for
// up to recallTimeout, and for the view. It is called before Wait, if at all.
func (p *Pending) Complete(ctx context.Context) {
	for i := range p.outcomes {
		//exhaustive:ignore these two have no answer yet
		switch r := &p.outcomes[i].Result; r.Reason {
		case exchange.InHistory:
			p.recall(ctx, &p.requests[i], r)
		case exchange.InView:
			if view := p.server.options.View; view != nil {
				view.Show(ctx, &p.requests[i].Command, r, !p.unavailable)
			} else {
				r.Reason = exchange.ViewUnavailable
			}
			p.unavailable = p.unavailable || r.Reason == exchange.HistoryUnavailable
		}
	}
}

// recall completes an outcome that is in the history.
func (p *Pending) recall(ctx context.Context, c *engine.Request, r *exchange.Result) {
	s := p.server
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	if p.unavailable || s.recalls.Acquire(ctx, 1) != nil {
		r.Reason = exchange.HistoryUnavailable
	} else {
		s.exchange.Recall(ctx, c, r, exchange.ReportExecutionsMax+1)
		s.recalls.Release(1)
	}
	p.unavailable = p.unavailable || r.Reason == exchange.HistoryUnavailable
	p.hide(r)
}

// Wait returns nil once all outcomes may be told. It is called once for each Call that returned no error. The error is
// the exchange's, ErrAborted or ctx's; then nothing may ever be told.
func (p *Pending) Wait(ctx context.Context) error {
	defer p.leave()
	if err := p.server.Durable(ctx, p.mark); err != nil {
		return err
	}
	p.server.options.Metrics.called(p)
	return nil
}

// MayTell reports whether Wait would return nil at once.
func (p *Pending) MayTell() bool {
	return p.mark == engine.Mark{} || p.server.exchange.MayTell(p.mark)
}

// Notify sends to wake, which has room for one value, as soon as it is worth while to call Wait. It does not wait.
func (p *Pending) Notify(wake chan<- struct{}) { p.server.exchange.Notify(p.mark, wake) }

// Mark returns the mark of all that its caller has read up to now, other than by Call, of what may be told only when it
// is durable.
func (s *Server) Mark() engine.Mark { return s.exchange.Mark() }

// Durable waits until what a mark was returned for may be told; of the zero mark, nothing is waited for. The error is
// the exchange's, ErrAborted or ctx's.
func (s *Server) Durable(ctx context.Context, m engine.Mark) error {
	if err := s.await(ctx, m); err != nil {
		return err
	}
	if s.aborted.Load() {
		return ErrAborted
	}
	return nil
}

// Draining returns a channel that is closed when the server shuts down: what has arrived by then is still done.
func (s *Server) Draining() <-chan struct{} { return s.accepting.Done() }
