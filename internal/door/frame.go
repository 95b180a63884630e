package door

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
)

// textTokenEnded is the reply to a frame whose token has ended.
const textTokenEnded = "the token of this request has ended"

// Admit reserves memory for a frame that another transport is about to read, and waits up to FrameTimeout for it. The
// caller calls release when the frame is done. A frame of up to smallFrameMax bytes needs no reservation. Before that,
// Admit waits until the token of ctx is within its share of the followers' pending work. The error is for the client
// if no memory was free within FrameTimeout; otherwise it is ctx's.
func (s *Server) Admit(ctx context.Context, frameBytes int) (release func(), err error) {
	if frameBytes <= smallFrameMax {
		return func() {}, nil
	}
	sender := Caller{server: s, grant: auth.GrantOf(ctx)}
	_, _ = sender.waitForFollowers(ctx, nil, lagMax, unchecked)
	patience := s.limits.Load().FrameTimeout
	held, err := s.arriving.wait(ctx, 2*frameBytes, patience)
	if errors.Is(err, errNoMemory) {
		s.options.Metrics.hit(limitMemory)
		return nil, errors.New(textNoMemory(patience))
	}
	if err != nil {
		return nil, fmt.Errorf("session: wait for memory: %w", err)
	}
	return func() { s.arriving.release(held) }, nil
}

// Answer executes one frame in the protocol of c, for transports other than TCP. It calls send with the reply
// once everything in the reply is durable. The caller limits the frame's size. The reply is valid, and its
// memory reserved, until send returns. ErrBusy means that nothing was done. Any other error means that the
// exchange has failed or is stopping, or is ctx's; it is then unknown whether the frame was done. After an
// error, send was not called.
//
// If the server requires tokens, ctx must carry the client's grant (auth.WithGrant). Without one, or after
// its end, the frame is refused.
func (s *Server) Answer(ctx context.Context, c Codec, frame []byte, send func(reply []byte)) error {
	if s.aborted.Load() {
		return ErrAborted
	}
	grant := auth.GrantOf(ctx)
	if !s.accepts(grant) {
		send(c.AppendError(nil, textTokenEnded))
		return nil
	}
	b := s.takeBatch(c)
	r := s.newReply(engine.Mark{}, time.Now())
	defer s.recycle(r)
	m := s.options.Metrics
	b.watch.Start()
	if err := s.hold(ctx, b, c.Memory(frame)); err != nil {
		s.discard(b)
		if errors.Is(err, errNoMemory) {
			s.options.Metrics.hit(limitMemory)
			send(c.AppendError(nil, textNoMemory(s.limits.Load().FrameTimeout)))
			return nil
		}
		return fmt.Errorf("session: wait for memory: %w", err)
	}
	b.sender = Caller{server: s, grant: grant}
	b.judge = b.sender.judge()
	b.add(frame, false)
	m.lap(&b.watch, stageDecode)
	if b.bytes <= smallFrameMax && !b.large { // a larger frame holds memory that others may need
		if err := b.sender.mayExecute(ctx, b.commands); errors.Is(err, ErrUnauthorized) {
			s.discard(b)
			send(c.AppendError(nil, textTokenEnded))
			return nil
		} else if err != nil {
			s.discard(b)
			return err
		}
	}
	if err := s.answer(ctx, b, r); err != nil {
		return err
	}
	m.lap(&r.watch, stageJournal)
	if s.aborted.Load() {
		return ErrAborted
	}
	send(r.bytes)
	m.answered(r)
	return nil
}

// answer executes the frame of a batch, releases the batch, and returns once the reply is durable.
func (s *Server) answer(ctx context.Context, b *batch, r *reply) error {
	var slot slot
	if !slot.acquire(s, b.commands) {
		s.discard(b)
		return ErrBusy
	}
	defer slot.giveBack()
	mark, err := s.execute(ctx, b)
	b.watch.Lap() // the exchange measures the stages that end here
	// The view is ready at about the time when the reply is durable. So a query of the view needs no slot of
	// lateAnswersMax.
	if err == nil && b.recalls {
		b.answers.unavailable = !slot.takeLate()
	}
	if err != nil {
		s.discard(b)
		return err
	}
	b.appendReply(ctx, r, 0)
	s.options.Metrics.executed(b, r)
	s.holdReply(r, b)
	s.release(b)
	return s.await(ctx, mark)
}
