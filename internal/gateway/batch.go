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
}

// newBatch returns an empty batch. It goes back through release.
func (s *Server) newBatch() *batch { return s.batches.Get().(*batch) }

// release gives a batch back for later use, without what it refers to.
func (s *Server) release(b *batch) {
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
	s.options.Metrics.executed(b)
	return seq, nil
}

// appendReplies appends the replies to all frames as they are sent.
func (b *batch) appendReplies(dst []byte, bare bool) []byte {
	rest := b.results
	for i := range b.requests[:b.frames] {
		r := &b.requests[i]
		n := len(r.Commands)
		b.scratch = r.AppendReply(b.scratch[:0], rest[:n])
		dst = appendFramed(dst, b.scratch, bare)
		rest = rest[n:]
	}
	return dst
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
}

// newReply returns an empty reply. It goes back through recycle.
func (s *Server) newReply() *reply {
	r := s.replies.Get().(*reply)
	*r = reply{bytes: r.bytes[:0], begun: time.Now()}
	return r
}

// lastReply returns a reply that says why the connection is closed.
func (s *Server) lastReply(reason string) *reply {
	r := s.newReply()
	r.last = true
	r.bytes = appendFramed(r.bytes, wire.AppendError(nil, reason), s.options.BareReplies)
	return r
}

// recycle gives a reply back for later use.
func (s *Server) recycle(r *reply) {
	if cap(r.bytes) <= keepBytes {
		s.replies.Put(r)
	}
}
