package door

import (
	"context"
	"fmt"
	"slices"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// keepBytes bounds the memory that is kept for the next reply, as what took a part of
// MemoryMax is not kept for the next batch: a few large frames must not make the
// server large for ever.
const keepBytes = 2 * writeBytesMax

// batch is a run of frames that are executed together. It has one owner at a time,
// and its memory is used again.
type batch struct {
	codec    Codec
	conn     *session // whose frames they are, nil for those of another transport
	messages []message
	frames   int                                        // how many of messages are in use
	bytes    int                                        // of the frames
	judge    *judge                                     // of the commands, nil if all are done
	take     func(c *exchange.Command) exchange.Refusal // judges a command, and takes it into commands: b.admit, made once
	commands []engine.Request
	results  []exchange.Result
	answered int         // how many of results are in a reply
	pending  bool        // some of results are in the history or the view
	recalls  bool        // some of them may be in the history
	last     uint64      // the number of the last frame
	cost     int         // of memory, as Codec.Memory has it
	mark     engine.Mark // what its answer waits for
	begun    time.Time   // when the first frame was whole
	late     int64       // of Server.recalling
	executed time.Time   // when it was, if it is answered late
	large    bool        // one frame, of more than a connection has memory for
	memory   *memory     // the server's that it takes of, if it is large
	held     int64       // of memory
	answers  answers
	clock    stageClock
}

// message is a decoded frame of a batch.
type message struct {
	Message
	commands int // how many of the batch's are its own
}

func newBatch(s *Server) *batch {
	b := new(batch)
	b.take = b.admit
	b.answers.init(s)
	return b
}

// takeBatch returns an empty batch for frames of a protocol. It goes back through release.
func (s *Server) takeBatch(c Codec) *batch {
	b := s.batches.Get().(*batch)
	if b.codec != c {
		b.codec, b.messages = c, nil
	}
	return b
}

// hold waits for the memory of a batch's first frame, if that is more than a
// connection has for itself. The error is errNoMemory, or ctx's.
func (s *Server) hold(ctx context.Context, b *batch, memory int) (err error) {
	b.memory = s.working
	if b.large = memory > s.options.BatchMemoryMax; b.large {
		if int64(memory) > s.working.max/hugeShare {
			b.memory = s.huge
		}
		b.held, err = b.memory.wait(ctx, memory, s.limits.Load().FrameTimeout)
	}
	return err
}

// discard gives back what a batch holds, but not the batch: the exchange may still
// write to it after an error.
func (s *Server) discard(b *batch) {
	b.memory.release(b.held)
	b.held = 0
}

// release gives a batch back for later use, without what it refers to.
func (s *Server) release(b *batch) {
	if b.large {
		s.discard(b)
		return
	}
	clear(b.commands)
	clear(b.results)
	b.answers.reset()
	b.frames, b.bytes, b.answered, b.large, b.commands, b.results = 0, 0, 0, false, b.commands[:0], b.results[:0]
	b.judge, b.conn, b.pending, b.recalls, b.last, b.cost, b.late = nil, nil, false, false, 0, 0, 0
	s.batches.Put(b)
}

// add decodes one more frame, of which it keeps nothing, and takes those of its commands that the
// batch's judge lets pass.
func (b *batch) add(frame []byte) {
	if b.frames == len(b.messages) {
		b.messages = append(b.messages, message{})
	}
	m := &b.messages[b.frames]
	if m.Message == nil {
		m.Message = b.codec.NewMessage()
	}
	m.CancelOnDisconnect(b.conn != nil && b.conn.onDisconnect)
	m.Decode(frame)
	if silence, ok := m.Connection(); ok && b.conn != nil {
		b.conn.set(silence)
	}
	b.frames++
	b.bytes += len(frame)
	if b.judge != nil && b.judge.grant != nil {
		m.JudgeMalformed(b.judge.permit)
	}
	// At once: a slice that grows command by command leaves more garbage than Memory counts.
	b.commands = slices.Grow(b.commands, m.Places())
	before := len(b.commands)
	m.Judge(b.take)
	m.commands = len(b.commands) - before
}

// admit takes a command, or returns why it is not done.
func (b *batch) admit(c *exchange.Command) (refusal exchange.Refusal) {
	b.commands = append(b.commands, engine.Request{Command: *c})
	last := len(b.commands) - 1
	if b.judge != nil {
		if refusal = b.judge.judge(&b.commands[last]); refusal.Reason != exchange.OK {
			b.commands[last] = engine.Request{}
			b.commands = b.commands[:last]
			return refusal
		}
	}
	if c.OnDisconnect && b.conn != nil {
		b.commands[last].Origin = b.conn.begins()
	}
	return refusal
}

// execute does the commands of all frames, in their order. The replies may be sent
// once Durable allows the mark; a batch without commands tells nothing and has the zero one. An
// error is the exchange's, or ctx's: then nothing of it may be seen.
func (s *Server) execute(ctx context.Context, b *batch) (mark engine.Mark, err error) {
	if n := len(b.commands); cap(b.results) < n {
		b.results = make([]exchange.Result, n)
	}
	b.results = b.results[:len(b.commands)]
	if len(b.commands) > 0 {
		if mark, err = s.exchange.Execute(ctx, b.commands, b.results); err != nil {
			return mark, fmt.Errorf("session: execute %d commands: %w", len(b.commands), err)
		}
	}
	for i := range b.results {
		//exhaustive:ignore these two have no answer yet
		switch b.results[i].Reason {
		case exchange.InHistory:
			b.pending, b.recalls = true, true
		case exchange.InView:
			b.pending, b.recalls = true, b.recalls || b.commands[i].Kind == exchange.ListFills
		}
	}
	return mark, nil
}

// split returns the frames of a batch from the first one on that has to wait for the
// history before it can be executed, as a batch of their own: those before must not wait
// with it. It returns nil if there is none, or none before it.
func (s *Server) split(b *batch) *batch {
	if b.frames < 2 {
		return nil
	}
	ready := s.exchange.Ready(b.commands)
	if ready == len(b.commands) {
		return nil
	}
	first, commands := 0, 0
	for commands+b.messages[first].commands <= ready {
		commands += b.messages[first].commands
		first++
	}
	if first == 0 {
		return nil
	}
	rest := s.takeBatch(b.codec)
	rest.conn = b.conn
	rest.messages = append(rest.messages[:0], b.messages[first:b.frames]...)
	rest.commands = append(rest.commands, b.commands[commands:]...)
	rest.frames, rest.cost = b.frames-first, b.cost
	clear(b.messages[first:b.frames]) // they are the other's
	clear(b.commands[commands:])
	b.frames, b.commands = first, b.commands[:commands]
	return rest
}

// appendReply appends the reply to frame i. Each frame is answered once, in their order.
func (b *batch) appendReply(ctx context.Context, to *reply, i int) {
	m := &b.messages[i]
	commands, results := b.commands[b.answered:][:m.commands], b.results[b.answered:][:m.commands]
	b.answered += m.commands
	b.answers.held = b.held
	to.memory = b.memory
	b.answers.append(ctx, to, b.codec, m.Message, commands, results)
}

// reply is what a batch is answered with, on its way to the client. It has one
// owner at a time, and its memory is used again.
type reply struct {
	bytes   []byte
	mark    engine.Mark // what the first byte waits for
	sent    int         // bytes that were sent without waiting
	durable bool        // as the reader has found
	begun   time.Time   // when the first frame of the batch was whole
	frame   uint64      // number of the last one that it answers, 0 if it answers none
	last    bool        // says why the connection is closed; answers no frame

	memory *memory // the server's that it takes of
	held   int64   // of memory, if bytes are many

	tallies []tally // of the batch's commands, in its last reply
	clock   stageClock
}

// newReply returns an empty reply. It goes back through recycle.
func (s *Server) newReply(mark engine.Mark, begun time.Time) *reply {
	r := s.replies.Get().(*reply)
	*r = reply{bytes: r.bytes[:0], tallies: r.tallies[:0], mark: mark, begun: begun, memory: s.working}
	return r
}

// holdReply has a finished reply hold the memory that it takes, of what it and its batch held
// while it was made. The batch holds nothing any more.
func (s *Server) holdReply(r *reply, b *batch) {
	held := r.held + b.held
	r.held, b.held = 0, 0
	if cap(r.bytes) > s.options.UnsentBytesMax {
		r.held = min(held, int64(cap(r.bytes)))
	}
	r.memory.release(held - r.held)
}

// recycle gives a reply back for later use, and what it holds.
func (s *Server) recycle(r *reply) {
	r.memory.release(r.held)
	r.held = 0
	if cap(r.bytes) <= keepBytes {
		s.replies.Put(r)
	}
}
