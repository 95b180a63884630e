package gateway

import (
	"context"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/wire"
)

// job is a run of frames that are executed together, and their replies. Its
// memory is used again.
type job struct {
	requests []wire.Request
	frames   int // how many of requests are in use
	bytes    int // of the frames
	commands []exchange.Command
	results  []exchange.Result
	reply    []byte
	scratch  []byte
	seq      uint64
	begun    time.Time // when the first frame was whole
}

func (j *job) reset() {
	j.frames, j.bytes, j.seq = 0, 0, 0
	j.commands, j.reply = j.commands[:0], j.reply[:0]
	j.begun = time.Now()
}

// Memory that a job keeps for the next one is bounded: a few large frames must
// not make every session large for ever.
const (
	keepCommands = 4096
	keepBytes    = 256 << 10
)

// trim gives up memory that is larger than what is kept.
func (j *job) trim() {
	if cap(j.commands) > keepCommands || cap(j.results) > keepCommands {
		*j = job{}
	}
	if cap(j.reply) > keepBytes || cap(j.scratch) > keepBytes {
		j.reply, j.scratch = nil, nil
	}
}

// add decodes one more frame.
func (j *job) add(frame []byte) {
	if j.frames == len(j.requests) {
		j.requests = append(j.requests, wire.Request{})
	}
	r := &j.requests[j.frames]
	r.Decode(frame)
	j.frames++
	j.bytes += len(frame)
	j.commands = append(j.commands, r.Commands...)
}

// do executes the commands of all frames and encodes their replies. An error is
// Execute's; nothing may be told then.
func (s *Server) do(ctx context.Context, j *job) (err error) {
	if n := len(j.commands); cap(j.results) < n {
		j.results = make([]exchange.Result, n)
	}
	j.results = j.results[:len(j.commands)]
	if len(j.commands) > 0 {
		if j.seq, err = s.exchange.Execute(ctx, j.commands, j.results); err != nil {
			return err
		}
	}
	s.options.Metrics.count(j)
	rest := j.results
	for i := range j.requests[:j.frames] {
		r := &j.requests[i]
		n := len(r.Commands)
		j.scratch = r.AppendReply(j.scratch[:0], rest[:n])
		j.reply = s.frame(j.reply, j.scratch)
		rest = rest[n:]
	}
	return nil
}

// Answer does one frame's XML and returns its reply's XML, once it may be told:
// the road of POST /xml. The error is the exchange's; nothing may be told then.
func (s *Server) Answer(ctx context.Context, xml []byte) ([]byte, error) {
	j := s.jobs.Get().(*job)
	defer func() {
		j.trim()
		s.jobs.Put(j)
	}()
	j.reset()
	j.add(xml)
	if err := s.do(ctx, j); err != nil {
		return nil, err
	}
	if err := s.exchange.Durable(ctx, j.seq); err != nil {
		return nil, err
	}
	s.options.Metrics.took(j)
	return append([]byte(nil), j.scratch...), nil
}
