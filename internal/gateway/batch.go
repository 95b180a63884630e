package gateway

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/wire"
)

// keepBytes bounds the memory that is kept for the next batch or reply: a few
// large frames must not make the server large for ever. What a frame takes once
// it is decoded is in proportion to its bytes.
const keepBytes = 256 << 10

// batch is a run of frames that are executed together. It has one owner at a time,
// and its memory is used again.
type batch struct {
	requests []wire.Request
	frames   int // how many of requests are in use
	bytes    int // of the frames
	commands []exchange.Command
	results  []exchange.Result
	scratch  []byte // one reply before its length is known
	held     int64  // of the server's memory
}

// newBatch returns an empty batch. It goes back through release.
func (s *Server) newBatch() *batch { return s.batches.Get().(*batch) }

// discard gives back what a batch holds, but not the batch: after an error the
// exchange may still write to it.
func (s *Server) discard(b *batch) {
	s.memory.release(b.held)
	b.held = 0
}

// release gives a batch back for later use, without what it refers to.
func (s *Server) release(b *batch) {
	s.discard(b)
	if b.bytes > keepBytes || cap(b.scratch) > keepBytes {
		return
	}
	clear(b.commands)
	clear(b.results)
	b.frames, b.bytes, b.commands, b.results = 0, 0, b.commands[:0], b.results[:0]
	s.batches.Put(b)
}

// add decodes one more frame, of which it keeps nothing.
func (b *batch) add(frame []byte) {
	if b.frames == len(b.requests) {
		b.requests = append(b.requests, wire.Request{})
	}
	r := &b.requests[b.frames]
	r.Decode(frame)
	b.frames++
	b.bytes += len(frame)
	b.commands = append(b.commands, r.Commands...)
}

// execute does the commands of all frames, in their order. The replies may be told
// once seq is durable; a batch without commands tells nothing and has seq 0. An
// error is the exchange's, or ctx's: then nothing may be told.
func (s *Server) execute(ctx context.Context, b *batch) (seq uint64, err error) {
	if n := len(b.commands); cap(b.results) < n {
		b.results = make([]exchange.Result, n)
	}
	b.results = b.results[:len(b.commands)]
	if len(b.commands) > 0 {
		if seq, err = s.exchange.Execute(ctx, b.commands, b.results); err != nil {
			return 0, fmt.Errorf("gateway: execute %d commands: %w", len(b.commands), err)
		}
	}
	return seq, nil
}

// answer encodes the replies to all frames, as they are sent, and passes them to
// tell: many together, but a long one as soon as it is there, so that the memory
// of one batch is that of one long reply. tell owns the reply, and what it holds.
func (s *Server) answer(ctx context.Context, b *batch, seq uint64, begun time.Time, bare bool, tell func(*reply)) {
	out := s.newReply(seq, begun)
	rest := 0
	for i := range b.requests[:b.frames] {
		r := &b.requests[i]
		commands, results := b.commands[rest:][:len(r.Commands)], b.results[rest:][:len(r.Commands)]
		rest += len(r.Commands)
		out.held += s.complete(ctx, commands, results)
		b.scratch = r.AppendReply(b.scratch[:0], results)
		out.bytes = appendFramed(out.bytes, b.scratch, bare)
		for i := range results {
			results[i].Status.Executions = nil // what was recalled is told
		}
		if len(out.bytes) >= s.options.UnsentBytesMax && i+1 < b.frames {
			tell(out)
			out = s.newReply(seq, begun)
		}
	}
	// The frame's memory goes on to a long reply of other things than queries.
	if keep := min(int64(len(out.bytes))-freeBytes-out.held, b.held); keep > 0 {
		out.held += keep
		b.held -= keep
	}
	s.options.Metrics.executed(b)
	tell(out)
}

// appendFramed appends one reply as it is sent: with its length, unless bare.
func appendFramed(dst, xml []byte, bare bool) []byte {
	if bare {
		return append(dst, xml...)
	}
	return wire.AppendFrame(dst, xml)
}

// reply is what a batch is answered with, on its way to the client. It has one
// owner at a time, and its memory is used again.
type reply struct {
	bytes []byte
	seq   uint64    // what must be durable before the first byte is sent
	begun time.Time // when the first frame of the batch was whole
	last  bool      // says why the connection is closed; answers no frame
	held  int64     // of the server's memory
}

// newReply returns an empty reply. It goes back through recycle.
func (s *Server) newReply(seq uint64, begun time.Time) *reply {
	r := s.replies.Get().(*reply)
	*r = reply{bytes: r.bytes[:0], seq: seq, begun: begun}
	return r
}

// lastReply returns a reply that says why the connection is closed.
func (s *Server) lastReply(reason string) *reply {
	r := s.newReply(0, time.Now())
	r.last = true
	r.bytes = appendFramed(r.bytes, wire.AppendError(nil, reason), s.options.BareReplies)
	return r
}

// recycle gives a reply back for later use.
func (s *Server) recycle(r *reply) {
	s.memory.release(r.held)
	r.held = 0
	if cap(r.bytes) <= keepBytes {
		s.replies.Put(r)
	}
}
