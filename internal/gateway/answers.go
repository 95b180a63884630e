package gateway

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/wire"
)

// answers makes the replies to the frames of a batch, place by place. What a query asks
// for may be large, so each is looked at when its turn comes: orders that are only in
// the history are fetched one by one, and a reply that has become long enough answers no
// further query. Everything else is answered always: it has been done. So a reply has at
// most ReplyBytesMax and wire.ReplyMax of its frame.
type answers struct {
	server      *Server
	held        int64     // by the batch: covers what was decoded and the reply without executions
	unavailable bool      // the history did not answer in this batch, and is not asked again
	failed      time.Time // when it was asked in this batch and did not answer

	// Of the frame.
	reply   *reply
	begin   int // of its XML in the reply
	request *wire.Request
	results []exchange.Result
	refusal string                // what further queries are answered with, "" while they are answered
	reason  exchange.RejectReason // of the refusal
	hit     bool                  // the reply was counted as one that has run into ReplyBytesMax
}

func (a *answers) init(s *Server) { a.server = s }

// reset forgets everything about a batch.
func (a *answers) reset() { *a = answers{server: a.server} }

// append appends the XML of the reply to one frame. results are those of its
// commands; their executions are dropped once they are in the reply.
func (a *answers) append(ctx context.Context, to *reply, r *wire.Request, results []exchange.Result) {
	places := r.Places()
	if places == 0 {
		to.bytes = r.AppendReply(to.bytes, results)
		return
	}
	a.reply, a.begin, a.request, a.results = to, len(to.bytes), r, results
	a.refusal, a.hit = "", false
	to.bytes = append(to.bytes, wire.ReplyBegin...)
	for i := range places {
		k := r.Command(i)
		if k < 0 || !r.Commands[k].Kind.Tells() {
			to.bytes = r.AppendAnswer(to.bytes, i, results)
			continue
		}
		if text := a.tell(ctx, i, &r.Commands[k], &results[k]); text != "" {
			to.bytes = r.AppendRefusal(to.bytes, i, text)
		}
		results[k].Status.Executions = nil
	}
	to.bytes = append(to.bytes, wire.ReplyEnd...)
}

// tell appends the answer to a query or a cancel in place i, or returns the error that is
// to stand there.
func (a *answers) tell(ctx context.Context, i int, c *exchange.Command, r *exchange.Result) (text string) {
	query := c.Kind == exchange.QueryOrder
	if query && (a.refusal != "" || a.size() >= a.server.options.ReplyBytesMax) {
		a.refuse(limitReply, replyTooLong, a.textLong())
		r.Reason = a.reason
		return a.refusal
	}
	if r.Reason == exchange.InHistory {
		if done := a.recall(ctx, c, r); done != nil {
			defer done()
		}
	}
	if r.Reason == exchange.ForeignOrder && a.server.options.Tokens != nil {
		r.Reason = exchange.UnknownOrder // tells nobody which orders others have
	}
	if len(r.Status.Executions) == 0 {
		a.reply.bytes = a.request.AppendAnswer(a.reply.bytes, i, a.results)
		return ""
	}
	if text = a.appendStatus(i, c, r); text == "" {
		return ""
	}
	if !query {
		return fmt.Sprintf("order %d is canceled; %s", c.Names(r), text)
	}
	r.Reason = a.reason
	return text
}

// appendStatus appends what tells executions. If it is too long it appends nothing, and
// returns why.
func (a *answers) appendStatus(i int, c *exchange.Command, r *exchange.Result) (refusal string) {
	most := a.server.options.ReplyBytesMax
	size, executions := a.size(), len(r.Status.Executions)
	alone := executions * wire.ExecutionBytesMin
	if alone <= most {
		if !a.hasRoom(size, executions) {
			a.refuse(limitMemory, noReplyMemory, "the exchange has no memory for so long a reply now; ask for this order again later, in a frame of its own")
			return a.refusal
		}
		before := len(a.reply.bytes)
		a.reply.bytes = a.request.AppendAnswer(a.reply.bytes, i, a.results)
		if a.size()+len(wire.ReplyEnd) <= most {
			return ""
		}
		alone = len(a.reply.bytes) - before + len(wire.ReplyBegin+wire.ReplyEnd)
		a.reply.bytes = a.reply.bytes[:before]
	}
	if alone <= most {
		a.refuse(limitReply, replyTooLong, a.textLong())
		return a.refusal
	}
	a.count()
	a.reason = replyTooLong
	id := c.Names(r)
	return fmt.Sprintf("what order %d has executed takes more than %d bytes; read it in pages, from /api/v1/orders/%d?after=0 on, or in the database", id, most, id)
}

// size returns how many bytes of XML the reply to the frame has.
func (a *answers) size() int { return len(a.reply.bytes) - a.begin }

// textLong is what further queries of a frame are answered with.
func (a *answers) textLong() string {
	return fmt.Sprintf("the reply to this frame is over %d bytes; ask for this order in another frame", a.server.options.ReplyBytesMax)
}

// refuse says that no further query of the frame is answered, unless that is so already.
func (a *answers) refuse(l limit, reason exchange.RejectReason, text string) {
	if a.refusal != "" {
		return
	}
	a.refusal, a.reason = text, reason
	if l == limitReply {
		a.count()
	} else {
		a.server.options.Metrics.hit(l)
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
func (a *answers) recall(ctx context.Context, c *exchange.Command, r *exchange.Result) (done func()) {
	s := a.server
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	if a.unavailable || s.recalls.Acquire(ctx, 1) != nil {
		r.Reason = exchange.HistoryUnavailable
	} else {
		done = func() { s.recalls.Release(1) }
		s.exchange.Recall(ctx, c, r, s.options.ReplyBytesMax/wire.ExecutionBytesMin+1)
	}
	if r.Reason == exchange.HistoryUnavailable && !a.unavailable {
		a.unavailable, a.failed = true, time.Now() // not once the reply is taken: that may be much later
	}
	return done
}

// hasRoom reports whether there is memory for so many executions more in a reply that
// has size bytes, and takes it. A reply may take all there is, so that an order of
// any size can be told when nobody else asks.
func (a *answers) hasRoom(size, executions int) bool {
	s := a.server
	need := int64(2*(a.begin+size) + executions*memoryOfExecution)
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
