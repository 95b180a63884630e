package door

import (
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/process/stopwatch"
)

// reply holds the replies to frames of a batch on their way to the client. It has one owner at a time, and
// its memory is reused.
type reply struct {
	bytes   []byte
	mark    engine.Mark // must be durable before the first byte is sent
	sent    int         // bytes already written by tryWriter
	durable bool        // trySend found the mark durable
	begun   time.Time   // when the first frame of the batch was complete
	frame   uint64      // number of the last frame that the reply answers, 0 for none
	last    bool        // the reply says why the connection is closed, and answers no frame

	memory *memory // the pool that held is reserved in
	held   int64   // bytes reserved in memory, if the reply is large

	tallies []tally // outcomes of the batch's commands; only in the batch's last reply
	watch   stopwatch.Watch
}

// keepBytes is the largest buffer of a reply that is kept for the next reply. Batches that used a part of
// MemoryMax are not kept either. So a few large frames do not increase the server's memory permanently.
const keepBytes = 2 * writeBytesMax

// newReply returns an empty reply. The caller gives it back through recycle.
func (s *Server) newReply(mark engine.Mark, begun time.Time) *reply {
	r, _ := s.replies.Get().(*reply)
	if r == nil {
		r = new(reply)
	}
	*r = reply{bytes: r.bytes[:0], tallies: r.tallies[:0], mark: mark, begun: begun, memory: s.working}
	return r
}

// recycle releases the memory that a reply holds and gives the reply back for reuse.
func (s *Server) recycle(r *reply) {
	r.memory.release(r.held)
	r.held = 0
	if cap(r.bytes) <= keepBytes {
		s.replies.Put(r)
	}
}

// tally is the number of commands of one kind with one outcome.
type tally struct {
	kind    exchange.CommandKind
	outcome outcome
	n       int
}

// count adds t to the reply's tallies.
func (r *reply) count(t tally) {
	for i := range r.tallies {
		if have := &r.tallies[i]; have.kind == t.kind && have.outcome == t.outcome {
			have.n += t.n
			return
		}
	}
	r.tallies = append(r.tallies, t)
}

// answered counts a reply that was sent, and the latency of its commands.
func (m *Metrics) answered(r *reply) {
	m.lap(&r.watch, stageWrite)
	took := time.Since(r.begun)
	for _, t := range r.tallies {
		m.latency[t.kind][t.outcome].Observe(took, t.n)
	}
	m.replyBytes.Add(float64(len(r.bytes)))
}
