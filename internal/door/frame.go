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
// Admit waits until the sender is within its share of the followers' pending work: the token of ctx or, if tokens are
// not required, the account that the frame's first bytes, head, name. The error is ErrBusy if too many callers wait for
// that, ctx's, or for the client. Nothing was done then.
func (s *Server) Admit(ctx context.Context, c Codec, head []byte, frameBytes int) (release func(), err error) {
	if frameBytes <= smallFrameMax {
		return func() {}, nil
	}
	sender := Caller{server: s, grant: auth.GrantOf(ctx)}
	var keys []uint64
	if account, ok := c.Account(head); ok || sender.grant != nil {
		keys = s.payers.appendPressed(keys, sender.keyOf(account))
	}
	if err := sender.waitForTurn(ctx, keys); errors.Is(err, ErrUnauthorized) {
		return nil, errors.New(textTokenEnded)
	} else if err != nil {
		return nil, err
	}
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
	b, text, err := s.take(ctx, c, grant, frame)
	switch {
	case text != "":
		send(c.AppendError(nil, text))
		return nil
	case err != nil:
		return err
	}
	r := s.newReply(engine.Mark{}, time.Now())
	defer s.recycle(r)
	m := s.options.Metrics
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

// take decodes a frame and waits until its sender is within its share of what followers have to do. text is an answer
// that takes the place of the frame's reply, "" for none. The error is that of Answer.
func (s *Server) take(
	ctx context.Context, c Codec, grant *auth.Grant, frame []byte,
) (b *batch, text string, err error) {
	for {
		b = s.takeBatch(c)
		b.watch.Start()
		if err := s.hold(ctx, b, c.Memory(frame)); err != nil {
			s.discard(b)
			if errors.Is(err, errNoMemory) {
				s.options.Metrics.hit(limitMemory)
				return nil, textNoMemory(s.limits.Load().FrameTimeout), nil
			}
			return nil, "", fmt.Errorf("session: wait for memory: %w", err)
		}
		b.sender = Caller{server: s, grant: grant}
		b.judge = b.sender.judge()
		b.add(frame, false)
		s.options.Metrics.lap(&b.watch, stageDecode)
		again, err := s.mayExecuteFrame(ctx, b, len(frame))
		switch {
		case errors.Is(err, ErrUnauthorized):
			s.discard(b)
			return nil, textTokenEnded, nil
		case err != nil:
			s.discard(b)
			return nil, "", err
		case !again:
			return b, "", nil
		}
	}
}

// mayExecuteFrame waits before a decoded frame is executed. A batch that holds memory is discarded before the wait, and
// its frame must be decoded again. A frame that has itself reserved memory has waited in Admit; if its sender is above
// its share again, or only the whole frame shows who the sender is, it cannot wait, and the error is ErrBusy.
func (s *Server) mayExecuteFrame(ctx context.Context, b *batch, frameBytes int) (again bool, err error) {
	sender := &b.sender
	keys := sender.pressed(b.commands)
	if len(keys) == 0 || sender.lag(keys...).slowest == nil || s.isDraining() {
		return false, nil
	}
	if frameBytes > smallFrameMax {
		s.options.Metrics.hit(limitFollowers)
		return false, ErrBusy
	}
	if again = b.large; again {
		s.discard(b)
	}
	return again, sender.waitForTurn(ctx, keys)
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
