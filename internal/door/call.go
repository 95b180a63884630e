package door

import (
	"context"
	"errors"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// Errors of Answer and Call that mean that nothing was executed.
var (
	// ErrBusy: the limit of concurrent frames or requests is reached.
	ErrBusy = errors.New("session: too many frames or requests at the same time")
	// ErrUnauthorized: a token is required, and the caller has none, or its token has expired or was revoked.
	ErrUnauthorized = errors.New("session: the caller has no valid token")
	// ErrExpired: the commands had to wait until the time of Caller.Expire.
	ErrExpired = errors.New("session: the commands waited for longer than their client allows")
	// ErrUndone: the context has ended while the commands had to wait.
	ErrUndone = errors.New("session: the commands were not executed")
)

// Outcome is the result of one request of a Call.
type Outcome struct {
	exchange.Result
	// Refusal is set if the request was not passed to the exchange: the token does not allow it, or the
	// account is over its rate. Its Reason is then also the Reason of Result. It is the zero value if the
	// request was passed on.
	Refusal exchange.Refusal
}

// Pending is a Call whose outcomes are not yet durable, so must not be shown to the client. It must not be
// copied after one of its methods was called.
type Pending struct {
	sources
	requests []engine.Request
	outcomes []Outcome
	mark     engine.Mark
	begun    time.Time
	slot     slot // the place among concurrent requests; zero for callers of Enter
}

// called is the reusable memory of a Call.
type called struct {
	commands []engine.Request
	results  []exchange.Result
}

// Call executes those requests that the caller's token and the rates allow, in order, and fills outcomes,
// which must have the same length. It sets the fields of each Request other than Command. No outcome, not
// even a refusal, may be shown to the client before Pending.Wait returns nil. Both slices belong to Pending
// until then. ShowOrder is not allowed.
//
// ErrBusy, ErrUnauthorized, ErrExpired, ErrUndone and ErrAborted mean that nothing was done. Any other error means
// that the exchange has failed or is stopping, or is ctx's: it is then unknown which requests were done, and no
// outcome may be shown.
func (s *Server) Call(
	ctx context.Context, caller *Caller, requests []engine.Request, outcomes []Outcome,
) (p Pending, err error) {
	if s.aborted.Load() {
		return p, ErrAborted
	}
	if !s.accepts(caller.grant) {
		return p, ErrUnauthorized
	}
	p = Pending{sources: sources{server: s}, requests: requests, outcomes: outcomes, begun: time.Now()}
	w, _ := s.calls.Get().(*called)
	if w == nil {
		w = new(called)
	}
	p.admit(caller, w)
	if err := caller.mayExecute(ctx, w.commands); err != nil {
		s.putCalled(w)
		return p, err
	}
	if !p.enter(caller, w.commands) {
		s.putCalled(w)
		return p, ErrBusy
	}
	if n := len(w.commands); cap(w.results) < n {
		w.results = make([]exchange.Result, n)
	}
	w.results = w.results[:len(w.commands)]
	if len(w.commands) > 0 {
		if p.mark, err = s.executeAll(ctx, w.commands, w.results); err != nil {
			caller.chargeDone(err, w.commands, w.results)
			p.slot.giveBack()
			return p, err // w is not reused: the exchange may still write to it
		}
		caller.charge(w.commands, w.results)
	}
	p.fill(w.results)
	s.putCalled(w)
	return p, nil
}

// Together returns how many requests, from the first on, should go into one Call if the caller shows each outcome
// separately. Later requests may have to wait for the history, and the first ones should not have to wait for those.
// It returns 0 for no requests.
func (s *Server) Together(requests []engine.Request) int {
	if len(requests) < 2 {
		return len(requests)
	}
	return max(1, s.exchange.Ready(requests))
}

// Part returns a Pending for one request of p, for callers that show each outcome separately. request and
// outcome are the caller's copies, of length 1, so that the slices that were given to Call are free again.
// After the first Part, use only the parts and not p. Part is for callers from Enter.
func (p *Pending) Part(request []engine.Request, outcome []Outcome) Pending {
	return Pending{sources: sources{server: p.server}, requests: request, outcomes: outcome, mark: p.mark, begun: p.begun}
}

// putCalled keeps the memory of a Call for the next one, unless it is large.
func (s *Server) putCalled(w *called) {
	clear(w.commands)
	clear(w.results)
	if cap(w.commands) <= callsKeep {
		w.commands, w.results = w.commands[:0], w.results[:0]
		s.calls.Put(w)
	}
}

// admit appends the allowed requests to w, and sets the Refusal of the others.
func (p *Pending) admit(caller *Caller, w *called) {
	j := caller.judge()
	for i := range p.requests {
		q, o := &p.requests[i], &p.outcomes[i]
		*o = Outcome{}
		if o.Refusal = j.admit(q); o.Refusal.Reason != exchange.OK {
			o.Reason = o.Refusal.Reason
			continue
		}
		w.commands = append(w.commands, *q)
	}
}

// enter limits how many requests of callers without a connection are executed at a time, and reports whether this
// one may be.
func (p *Pending) enter(c *Caller, commands []engine.Request) bool {
	return c.connected || p.slot.acquire(p.server, commands)
}

// fill copies results into the outcomes of the requests that were executed.
func (p *Pending) fill(results []exchange.Result) {
	next := 0
	for i := range p.outcomes {
		o := &p.outcomes[i]
		if o.Refusal.Reason != exchange.OK {
			continue
		}
		o.Result = results[next]
		next++
	}
}

// Complete asks the history and the view for the outcomes that Call left pending; afterwards none is pending. It
// loads up to ReportExecutionsMax + 1 executions of an order in the history.
// It may wait up to recallTimeout for each order in the database, and for the view. Call it before Wait, or
// not at all.
func (p *Pending) Complete(ctx context.Context) {
	for i := range p.outcomes {
		c, r := &p.requests[i], &p.outcomes[i].Result
		switch r.Pending {
		case exchange.Nowhere:
		case exchange.InHistory:
			if done := p.recall(ctx, c, r, exchange.ReportExecutionsMax+1); done != nil {
				done()
			}
		case exchange.InView:
			p.show(ctx, c, r)
		}
	}
}

// Wait waits until the outcomes are durable, so may be shown to the client. Call it exactly once after each
// Call that returned no error. The error is the exchange's, ErrAborted, or ctx's; then the outcomes must
// never be shown.
func (p *Pending) Wait(ctx context.Context) error {
	defer p.slot.giveBack()
	if err := p.server.Durable(ctx, p.mark); err != nil {
		return err
	}
	p.server.options.Metrics.called(p)
	return nil
}

// Seq returns the number of the newest journal record at the end of the call. All records that the outcomes
// depend on have this number or a lower one.
func (p *Pending) Seq() uint64 { return p.mark.Seq }

// IsDurable reports whether Wait would return nil at once.
func (p *Pending) IsDurable() bool {
	return p.mark == engine.Mark{} || p.server.exchange.IsDurable(p.mark)
}

// Notify sends to wake as soon as it is worthwhile to call Wait. wake must have a buffer of one. Notify does
// not wait.
func (p *Pending) Notify(wake chan<- struct{}) { p.server.exchange.Notify(p.mark, wake) }

// called counts the requests of a Call, once its outcomes are durable.
func (m *Metrics) called(p *Pending) {
	took := time.Since(p.begun)
	for i := range p.outcomes {
		kind, reason := p.requests[i].Kind, p.outcomes[i].Reason
		if p.outcomes[i].Refusal.Reason != exchange.OK {
			continue
		}
		m.byKind[kind][reason].Inc()
		m.latency[kind][m.outcome(reason, 1)].Observe(took, 1)
	}
	m.frames.Add(float64(len(p.requests)))
}
