package door

import (
	"context"
	"slices"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/process/stopwatch"
)

// batch is a run of frames that are executed together. It has one owner at a time, and its memory is reused.
type batch struct {
	codec    Codec
	messages []message
	frames   int                                        // number of messages in use
	bytes    int                                        // total size of the frames
	judge    judge                                      // decides which commands are executed
	admitOne func(c *exchange.Command) exchange.Refusal // b.admit as a func value, made once
	sender   Caller                                     // sender of a frame that did not come over a connection
	commands []engine.Request
	results  []exchange.Result
	answered int         // number of results that are already in a reply
	pending  bool        // at least one result is in the history or the view
	recalls  bool        // at least one result may be in the history
	last     uint64      // number of the last frame in the session
	cost     int         // memory in bytes, according to Codec.Memory
	mark     engine.Mark // what the replies wait for
	begun    time.Time   // when the first frame was complete
	late     int64       // bytes reserved in Server.recalling
	executed time.Time   // when the batch was executed, if it is answered late
	large    bool        // the batch is one frame that needs more memory than each connection has
	memory   *memory     // the pool of the server that a large batch uses
	held     int64       // bytes reserved in memory
	answers  answers
	watch    stopwatch.Watch
}

// message is a decoded frame of a batch.
type message struct {
	Message
	commands int // number of the batch's commands that come from this frame
}

func newBatch(s *Server) *batch {
	b := new(batch)
	b.admitOne = b.admit
	b.answers.init(s)
	return b
}

// takeBatch returns an empty batch for frames of a protocol. The caller gives it back through release.
func (s *Server) takeBatch(c Codec) *batch {
	b, _ := s.batches.Get().(*batch)
	if b == nil {
		b = newBatch(s)
	}
	if b.codec != c {
		b.codec, b.messages = c, nil
	}
	return b
}

// hold reserves memory for the first frame of a batch, if the frame needs more than each connection has. It
// waits up to FrameTimeout. The error is errNoMemory or ctx's.
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

// discard releases the memory that a batch holds, but does not reuse the batch itself: after an error the exchange may
// still write to it.
func (s *Server) discard(b *batch) {
	b.memory.release(b.held)
	b.held = 0
}

// release returns a batch to the pool, and drops its references.
func (s *Server) release(b *batch) {
	if b.large {
		s.discard(b)
		return
	}
	clear(b.commands)
	clear(b.results)
	b.answers.reset()
	b.frames, b.bytes, b.answered, b.large, b.commands, b.results = 0, 0, 0, false, b.commands[:0], b.results[:0]
	b.sender, b.judge, b.pending, b.recalls, b.last, b.cost, b.late = Caller{}, judge{}, false, false, 0, 0, 0
	s.batches.Put(b)
}

// add decodes one more frame into the batch and appends those commands that the judge allows. It keeps no
// part of the frame. onDisconnect says whether orders without an instruction of their own are canceled when their
// connection ends. ok reports whether the frame sets something for its connection, as Message.Connection does.
func (b *batch) add(frame []byte, onDisconnect bool) (silence time.Duration, ok bool) {
	if b.frames == len(b.messages) {
		b.messages = append(b.messages, message{})
	}
	m := &b.messages[b.frames]
	if m.Message == nil {
		m.Message = b.codec.NewMessage()
	}
	m.CancelOnDisconnect(onDisconnect)
	m.Decode(frame, &b.judge.caller.names)
	b.frames++
	b.bytes += len(frame)
	if b.judge.demandsGrant() {
		m.JudgeMalformed(b.judge.permit)
	}
	// Grow in one step: a slice that grows command by command leaves more garbage than Codec.Memory counts.
	b.commands = slices.Grow(b.commands, m.Places())
	before := len(b.commands)
	m.Judge(b.admitOne)
	m.commands = len(b.commands) - before
	return m.Connection()
}

// admit appends a command to the batch, or returns the refusal of the judge.
func (b *batch) admit(c *exchange.Command) (refusal exchange.Refusal) {
	b.commands = append(b.commands, engine.Request{Command: *c})
	last := len(b.commands) - 1
	if refusal = b.judge.admit(&b.commands[last]); refusal.Reason != exchange.OK {
		b.commands[last] = engine.Request{}
		b.commands = b.commands[:last]
	}
	return refusal
}

// execute executes the commands of all frames in order. The replies may be sent once Durable allows the mark.
// A batch without commands has the zero mark. The error is the exchange's or ctx's; then no result may be
// sent.
func (s *Server) execute(ctx context.Context, b *batch) (mark engine.Mark, err error) {
	if n := len(b.commands); cap(b.results) < n {
		b.results = make([]exchange.Result, n)
	}
	b.results = b.results[:len(b.commands)]
	if len(b.commands) > 0 {
		if mark, err = s.executeAll(ctx, b.commands, b.results); err != nil {
			b.judge.caller.chargeDone(err, b.commands, b.results)
			return mark, err
		}
		b.judge.caller.charge(b.commands, b.results)
	}
	for i := range b.results {
		switch b.results[i].Pending {
		case exchange.Nowhere:
		case exchange.InHistory:
			b.pending, b.recalls = true, true
		case exchange.InView:
			b.pending, b.recalls = true, b.recalls || b.commands[i].Kind == exchange.ListFills
		}
	}
	return mark, nil
}

// split removes from a batch the first frame that must wait for the history, and all frames after it. It returns
// them as a new batch, so that the frames before them do not wait too. It returns nil if no frame has to wait, or
// if the first one must.
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
	rest.messages = append(rest.messages[:0], b.messages[first:b.frames]...)
	rest.commands = append(rest.commands, b.commands[commands:]...)
	rest.judge, rest.frames, rest.cost = b.judge, b.frames-first, b.cost
	clear(b.messages[first:b.frames]) // these messages now belong to rest
	clear(b.commands[commands:])
	b.frames, b.commands = first, b.commands[:commands]
	return rest
}

// appendReply appends the reply to frame i. It is called once for each frame, in order.
func (b *batch) appendReply(ctx context.Context, to *reply, i int) {
	m := &b.messages[i]
	commands, results := b.commands[b.answered:][:m.commands], b.results[b.answered:][:m.commands]
	b.answered += m.commands
	b.answers.held = b.held
	to.memory = b.memory
	b.answers.append(ctx, to, b.codec, m.Message, commands, results)
}

// holdReply moves the reservation of a batch to its finished reply, and releases what the reply does not
// need. The batch holds nothing afterwards.
func (s *Server) holdReply(r *reply, b *batch) {
	held := r.held + b.held
	r.held, b.held = 0, 0
	if cap(r.bytes) > s.options.UnsentBytesMax {
		r.held = min(held, int64(cap(r.bytes)))
	}
	r.memory.release(held - r.held)
}

// executed counts the commands and frames of a batch; r is the batch's last reply. Adjacent commands of the
// same kind and reason are counted in one step.
func (m *Metrics) executed(b *batch, r *reply) {
	for first := 0; first < len(b.commands); {
		kind, reason := b.commands[first].Kind, b.results[first].Reason
		next := first + 1
		for next < len(b.commands) && b.commands[next].Kind == kind && b.results[next].Reason == reason {
			next++
		}
		m.byKind[kind][reason].Add(float64(next - first))
		r.count(tally{kind, m.outcome(reason, next-first), next - first})
		first = next
	}
	malformed := 0
	for i := range b.messages[:b.frames] {
		malformed += b.messages[i].Refused()
	}
	m.malformed.Add(float64(malformed))
	m.frames.Add(float64(b.frames))
	m.requestBytes.Add(float64(b.bytes))
	m.lap(&b.watch, stageEncode)
	r.watch = b.watch
}
