package door

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// answers makes the replies to the frames of a batch, place by place. What a query asks
// for may be large, so each is considered when its turn comes: orders that are only in
// the history are fetched one by one, and a reply that has become long enough answers no
// further query. Everything else is answered always: it has been done. So a reply has at
// most ReplyBytesMax, and what its frame makes the codec repeat.
type answers struct {
	server      *Server
	held        int64     // by the batch: covers what was decoded and the reply without executions
	unavailable bool      // the history did not answer in this batch, and is not asked again
	unseen      bool      // likewise the view of accounts
	failed      time.Time // when it was asked in this batch and did not answer

	// Of the frame.
	reply   *reply
	begin   int // of its bytes in the reply
	codec   Codec
	message Message
	results []exchange.Result
	refusal exchange.Refusal // what further queries are answered with, none while they are answered
	hit     bool             // the reply was counted as one that has run into ReplyBytesMax
}

func (a *answers) init(s *Server) { a.server = s }

// reset forgets everything about a batch.
func (a *answers) reset() { *a = answers{server: a.server} }

// append appends the reply to one frame. results are those of its commands; their executions are
// dropped once they are in the reply.
func (a *answers) append(ctx context.Context, to *reply, c Codec, m Message, commands []engine.Request,
	results []exchange.Result) {
	places := m.Places()
	if places == 0 {
		to.bytes = m.AppendReply(to.bytes, results)
		return
	}
	a.reply, a.begin, a.codec, a.message, a.results = to, len(to.bytes), c, m, results
	a.refusal, a.hit = exchange.Refusal{}, false
	begin, end := c.Brackets()
	to.bytes = append(to.bytes, begin...)
	for i := range places {
		k := m.Command(i)
		if k < 0 {
			to.bytes = m.AppendAnswer(to.bytes, i, results)
			continue
		}
		if !commands[k].Kind.Tells() && !commands[k].Kind.Views() {
			done := a.complete(ctx, &commands[k], &results[k])
			to.bytes = m.AppendAnswer(to.bytes, i, results)
			results[k].Status.Executions = nil
			done()
			continue
		}
		if refusal := a.tell(ctx, i, &commands[k], &results[k]); refusal.Reason != exchange.OK {
			to.bytes = m.AppendRefusal(to.bytes, i, refusal)
		}
		results[k].Status.Executions = nil
		if commands[k].Kind.Views() {
			results[k].More = nil
		}
	}
	to.bytes = append(to.bytes, end...)
}

// complete makes a result one that can be told: an amend of an order that was closed long ago, or what an order
// reported that is sent again, is in the history. done is to be called once the answer is appended.
func (a *answers) complete(ctx context.Context, c *engine.Request, r *exchange.Result) (done func()) {
	done = func() {}
	if r.Reason == exchange.InHistory {
		if release := a.recall(ctx, c, r); release != nil {
			done = release
		}
	}
	if r.Reason == exchange.ForeignOrder && a.server.options.Tokens != nil {
		r.Reason = exchange.UnknownOrder // tells nobody which orders others have
	}
	if c.Report {
		a.report(r)
	}
	return done
}

// tell appends the answer to a query or a cancel in place i, or returns what is to stand there
// in its place.
func (a *answers) tell(ctx context.Context, i int, c *engine.Request, r *exchange.Result) (refusal exchange.Refusal) {
	query := c.Kind == exchange.QueryOrder || c.Kind.Views()
	if query && (a.refusal.Reason != exchange.OK || a.size() >= a.server.options.ReplyBytesMax) {
		a.refuse(exchange.ReplyTooLong)
		r.Reason = a.refusal.Reason
		return a.refusal
	}
	if r.Reason == exchange.InView {
		a.show(ctx, c, r)
	}
	if r.Reason == exchange.InHistory {
		if done := a.recall(ctx, c, r); done != nil {
			defer done()
		}
	}
	if r.Reason == exchange.ForeignOrder && a.server.options.Tokens != nil {
		r.Reason = exchange.UnknownOrder // tells nobody which orders others have
	}
	if entries(r) == 0 {
		a.reply.bytes = a.message.AppendAnswer(a.reply.bytes, i, a.results)
		return refusal
	}
	switch refusal = a.appendStatus(i, c, r); {
	case refusal.Reason == exchange.OK:
	case query:
		r.Reason = refusal.Reason
	default:
		refusal.Text = fmt.Sprintf("order %d is canceled; %s", c.Names(r), refusal.Text)
	}
	return refusal
}

// report makes room for the executions of a report, or drops them: what it tells of is done, so that it is
// answered in any case.
func (a *answers) report(r *exchange.Result) {
	executions := min(len(r.Status.Executions), exchange.ReportExecutionsMax)
	if executions == 0 {
		return
	}
	size := a.size()
	long := size+executions*executionBytesMax > a.server.options.ReplyBytesMax
	if !long && a.hasRoom(size, executions*memoryOfExecution) {
		return
	}
	if long {
		a.count()
	}
	var more exchange.ResultMore
	if r.More != nil {
		more = *r.More
	}
	more.Cut = true
	r.More, r.Status.Executions = &more, nil
}

// show completes a result that waits for the view of accounts.
func (a *answers) show(ctx context.Context, c *engine.Request, r *exchange.Result) {
	if view := a.server.options.View; view != nil && !a.unseen {
		view.Show(ctx, &c.Command, r, !a.unavailable)
	} else {
		r.Reason = exchange.ViewUnavailable
	}
	a.unseen = r.Reason == exchange.ViewUnavailable
	if r.Reason == exchange.HistoryUnavailable {
		a.forgo()
	}
}

// forgo says that the history did not answer, and is not asked again in the batch.
func (a *answers) forgo() {
	if !a.unavailable {
		a.unavailable, a.failed = true, time.Now() // not once the reply is taken: that may be much later
	}
}

// entries returns how many executions, or lines of a list, a result has.
func entries(r *exchange.Result) int {
	n := len(r.Status.Executions)
	if m := r.More; m != nil {
		switch {
		case m.AccountView != nil:
			n = len(m.AccountView.Positions)
		case m.OrdersView != nil:
			n = len(m.OrdersView.Orders)
		case m.FillsView != nil:
			n = len(m.FillsView.Fills)
		}
	}
	return n
}

// appendStatus appends an answer with executions. If it is too long it appends nothing, and
// returns why.
func (a *answers) appendStatus(i int, c *engine.Request, r *exchange.Result) (refusal exchange.Refusal) {
	most := a.server.options.ReplyBytesMax
	size, entries := a.size(), entries(r)
	alone := entries * a.codec.ExecutionBytesMin()
	begin, end := a.codec.Brackets()
	if alone <= most {
		memory := entries * memoryOfExecution
		if c.Kind.Views() {
			memory = entries * memoryOfLine
		}
		if !a.hasRoom(size, memory) {
			a.refuse(exchange.NoMemory)
			return a.refusal
		}
		before := len(a.reply.bytes)
		a.reply.bytes = a.message.AppendAnswer(a.reply.bytes, i, a.results)
		if a.size()+len(end) <= most {
			return refusal
		}
		alone = len(a.reply.bytes) - before + len(begin) + len(end)
		a.reply.bytes = a.reply.bytes[:before]
	}
	if alone <= most {
		a.refuse(exchange.ReplyTooLong)
		return a.refusal
	}
	a.count()
	if c.Kind.Views() {
		return exchange.Refusal{Reason: exchange.ReplyTooLong, Text: fmt.Sprintf(
			"what account %s has takes more than %d bytes; read it in the database", c.Account, most)}
	}
	id := c.Names(r)
	return exchange.Refusal{Reason: exchange.ReplyTooLong,
		Text: fmt.Sprintf("what order %d has executed takes more than %d bytes; "+
			"read it in pages, from /api/v1/orders/%d?after=0 on, or in the database", id, most, id)}
}

// size returns how many bytes the reply to the frame has.
func (a *answers) size() int { return len(a.reply.bytes) - a.begin }

// refuse says that no further query of the frame is answered, unless that is so already.
func (a *answers) refuse(reason exchange.RejectReason) {
	if a.refusal.Reason != exchange.OK {
		return
	}
	r := exchange.Result{Reason: reason, Most: int64(a.server.options.ReplyBytesMax)}
	a.refusal = exchange.Refusal{Reason: reason, Text: r.Text(nil)}
	if reason == exchange.ReplyTooLong {
		a.count()
	} else {
		a.server.options.Metrics.hit(limitMemory)
	}
}

// count counts the reply as one that has run into ReplyBytesMax, once.
func (a *answers) count() {
	if !a.hit {
		a.hit = true
		a.server.options.Metrics.hit(limitReply)
	}
}

// recall completes a result that is in the history. If done is not nil, it is to be called
// once the executions that were fetched are dropped.
func (a *answers) recall(ctx context.Context, c *engine.Request, r *exchange.Result) (done func()) {
	s := a.server
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	if a.unavailable || s.recalls.Acquire(ctx, 1) != nil {
		r.Reason = exchange.HistoryUnavailable
	} else {
		done = func() { s.recalls.Release(1) }
		s.exchange.Recall(ctx, c, r, s.options.ReplyBytesMax/a.codec.ExecutionBytesMin()+1)
	}
	if r.Reason == exchange.HistoryUnavailable {
		a.forgo()
	}
	return done
}

// hasRoom reports whether there is memory for what takes so much of it in a reply that
// has size bytes, and takes it. A reply may take all there is, so that an order of
// any size can be told when nobody else asks.
func (a *answers) hasRoom(size, memory int) bool {
	s := a.server
	need := int64(2*(a.begin+size) + memory)
	if need <= int64(2*s.options.UnsentBytesMax) {
		return true
	}
	held := a.held + a.reply.held
	need = min(need, a.reply.memory.max)
	if need <= held {
		return true
	}
	more := min(max(need-held, memoryStep), a.reply.memory.max-held)
	if !a.reply.memory.try(more) {
		return false
	}
	a.reply.held += more
	return true
}
