package door

import (
	"context"
	"fmt"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// answers builds the replies to the frames of a batch, place by place. The answer to a query may be large, so each
// query is handled only when its turn comes: orders that are only in the history are fetched one by one, and once a
// reply has reached ReplyBytesMax, no further query is answered in it. All other commands are always answered, because
// they are already executed. So a reply has at most ReplyBytesMax bytes plus the parts of the frame that the codec
// repeats.
type answers struct {
	sources
	held int64 // bytes that the batch holds; they cover the decoded frames and a reply without executions

	// The fields below belong to the frame that is being answered.
	reply   *reply
	begin   int // offset in reply.bytes at which the reply to this frame begins
	codec   Codec
	message Message
	results []exchange.Result
	refusal exchange.Refusal // the answer to every further query; its Reason is OK while queries are answered
	hit     bool             // the reply is already counted as one that ran into ReplyBytesMax
}

func (a *answers) init(s *Server) { a.server = s }

// reset drops everything that belongs to a batch.
func (a *answers) reset() { *a = answers{sources: sources{server: a.server}} }

// append appends the reply to one frame. results belong to the frame's commands. Their executions are dropped
// as soon as they are in the reply.
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
		if refusal := a.answer(ctx, i, &commands[k], &results[k]); refusal.Reason != exchange.OK {
			to.bytes = m.AppendRefusal(to.bytes, i, refusal)
		}
		results[k].Status.Executions = nil
		if commands[k].Kind.Views() {
			results[k].Answer = nil
		}
	}
	to.bytes = append(to.bytes, end...)
}

// complete makes a result ready to be answered. If it is in the history (an amend of an order that was closed
// long ago, or the repeated report of an order), complete fetches it. The caller calls done once the answer
// is appended.
func (a *answers) complete(ctx context.Context, c *engine.Request, r *exchange.Result) (done func()) {
	done = func() {}
	if r.Pending == exchange.InHistory {
		if release := a.recall(ctx, c, r); release != nil {
			done = release
		}
	}
	if c.Report {
		a.report(r)
	}
	return done
}

// answer appends the answer to a query or a cancel in place i. If it cannot, it returns the refusal that the caller
// must put there.
func (a *answers) answer(ctx context.Context, i int, c *engine.Request, r *exchange.Result) (refusal exchange.Refusal) {
	query := c.Kind == exchange.QueryOrder || c.Kind.Views()
	if query && (a.refusal.Reason != exchange.OK || a.size() >= a.server.options.ReplyBytesMax) {
		a.refuse(exchange.ReplyTooLong)
		r.Reason = a.refusal.Reason
		return a.refusal
	}
	if r.Pending == exchange.InView {
		a.show(ctx, c, r)
	}
	if r.Pending == exchange.InHistory {
		if done := a.recall(ctx, c, r); done != nil {
			defer done()
		}
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

// report reserves memory for the executions of a report. Without memory it drops the executions: the
// command is already done and is answered in any case.
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
	r.Cut, r.Status.Executions = true, nil
}

// entries returns the number of executions or list entries of a result.
func entries(r *exchange.Result) int {
	n := len(r.Status.Executions)
	if a := r.Answer; a != nil {
		switch {
		case a.Account != nil:
			n = len(a.Account.Positions)
		case a.Orders != nil:
			n = len(a.Orders.Orders)
		case a.Fills != nil:
			n = len(a.Fills.Fills)
		}
	}
	return n
}

// appendStatus appends an answer with executions. If the answer is too long, or there is no memory for it,
// appendStatus appends nothing and returns the refusal.
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
			"the data of account %s take more than %d bytes; read them in the database", c.Account, most)}
	}
	id := c.Names(r)
	return exchange.Refusal{Reason: exchange.ReplyTooLong,
		Text: fmt.Sprintf("the executions of order %d take more than %d bytes; read "+
			"them in pages, from /api/v1/orders/%d?after=0 on, or in the database", id, most, id)}
}

// size returns the number of bytes of the reply to this frame so far.
func (a *answers) size() int { return len(a.reply.bytes) - a.begin }

// refuse sets the answer to all further queries of the frame, unless it is already set.
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

// count counts the reply, at most once, as one that reached ReplyBytesMax.
func (a *answers) count() {
	if !a.hit {
		a.hit = true
		a.server.options.Metrics.hit(limitReply)
	}
}

// recall completes a result whose order is in the history. If done is not nil, the caller calls it once the fetched
// executions are dropped.
func (a *answers) recall(ctx context.Context, c *engine.Request, r *exchange.Result) (done func()) {
	return a.sources.recall(ctx, c, r, a.server.options.ReplyBytesMax/a.codec.ExecutionBytesMin()+1)
}

// hasRoom reports whether a reply of size bytes may use memory more bytes, and reserves them. One reply may
// use all the memory of its pool, so that an order of any size can be answered while no other reply needs
// memory.
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
