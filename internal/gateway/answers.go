package gateway

import (
	"context"
	"fmt"

	"outcry/internal/exchange"
	"outcry/internal/wire"
)

// answers makes the replies to the frames of a batch. What a query asks for may be
// large, so each is looked at when its turn comes: orders that are only in the
// database are fetched one by one, and a reply that has become long enough answers
// no further query. Everything else is answered always: it has been done.
type answers struct {
	server *Server
	look   wire.Look       // lookAt, bound once
	ctx    context.Context // of the frame, as what follows

	reply       *reply
	begin       int   // of the frame's XML in the reply
	held        int64 // by the batch: covers what was decoded and the shortest reply
	commands    []exchange.Command
	results     []exchange.Result
	last        *exchange.Result      // that was looked at
	refusal     string                // what further queries are answered with, "" while they are answered
	reason      exchange.RejectReason // of the refusal
	unavailable bool                  // the database did not answer in this batch, and is not asked again
}

func (a *answers) init(s *Server) {
	a.server = s
	a.look = a.lookAt
}

// reset forgets everything about a batch.
func (a *answers) reset() { *a = answers{server: a.server, look: a.look} }

// append appends the XML of the reply to one frame. results are those of its
// commands; their executions are dropped once they are in the reply.
func (a *answers) append(ctx context.Context, to *reply, r *wire.Request, results []exchange.Result) {
	a.ctx, a.reply, a.begin = ctx, to, len(to.bytes)
	a.commands, a.results, a.refusal = r.Commands, results, ""
	to.bytes = r.AppendReply(to.bytes, results, a.look)
	a.forgetLast()
}

// lookAt implements wire.Look.
func (a *answers) lookAt(i, size int) (refusal string) {
	a.forgetLast()
	c, r := &a.commands[i], &a.results[i]
	query := c.Kind == exchange.QueryOrder
	if query && a.isLong(size) {
		r.Reason = a.reason
		return a.refusal
	}
	if r.Reason == exchange.HistoryUnavailable && !a.unavailable {
		a.server.exchange.Recall(a.ctx, c, r)
		a.unavailable = r.Reason == exchange.HistoryUnavailable
	}
	if r.Reason == exchange.ForeignOrder && a.server.options.Tokens != nil {
		r.Reason = exchange.UnknownOrder // tells nobody which orders others have
	}
	a.last = r
	if !a.hasRoom(size, len(r.Status.Executions)) && query {
		a.refuse(limitMemory, noReplyMemory, "the exchange has no memory for so long a reply now; ask for this order again later, in a frame of its own")
		r.Reason = a.reason
		return a.refusal
	}
	return ""
}

// isLong tells whether a reply that has size bytes answers no further query.
func (a *answers) isLong(size int) bool {
	if most := a.server.options.ReplyBytesMax; a.refusal == "" && size >= most {
		a.refuse(limitReply, replyTooLong, fmt.Sprintf("the reply to this frame is over %d bytes; ask for this order in another frame", most))
	}
	return a.refusal != ""
}

// refuse says that no further query of the frame is answered.
func (a *answers) refuse(l limit, reason exchange.RejectReason, text string) {
	a.refusal, a.reason = text, reason
	a.server.options.Metrics.hit(l)
}

// hasRoom tells whether there is memory for so many executions more in a reply that
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

// forgetLast lets go of the executions that were appended last.
func (a *answers) forgetLast() {
	if a.last != nil {
		a.last.Status.Executions = nil
		a.last = nil
	}
}
