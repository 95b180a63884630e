package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
)

// textTokenEnded is the reply to a frame whose token has ended.
const textTokenEnded = "the token of this request has ended"

// Admit reserves memory for a frame that another transport is about to read, and waits up to FrameTimeout for it. The
// caller calls release when the frame is done. A frame of up to smallFrameMax bytes needs no reservation. Before that,
// Admit waits until the sender is within its share of the followers' pending work: the token of ctx or, if tokens are
// not required, the account that the frame's first bytes, head, name, else the client of ctx (WithClient). The error is
// ErrBusy if too many callers wait for that, ctx's, or for the client. Nothing was done then.
func (s *Server) Admit(ctx context.Context, c Codec, head []byte, frameBytes int) (release func(), err error) {
	if frameBytes <= smallFrameMax {
		return func() {}, nil
	}
	sender := s.senderOf(ctx)
	commands, _ := sender.expect(c, head)
	if err := sender.waitForTurn(ctx, commands); errors.Is(err, ErrUnauthorized) {
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

// clientKey is the key of a client's address in a context.
type clientKey struct{}

// WithClient returns a context for Admit and Answer with the address of the client that sends the frame. If tokens are
// not required, all frames with the same host that open accounts or deposit shares share one charge.
func WithClient(ctx context.Context, address net.Addr) context.Context {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		host = address.String()
	}
	return context.WithValue(ctx, clientKey{}, host)
}

// senderOf returns the sender of a frame: the grant and the client of ctx.
func (s *Server) senderOf(ctx context.Context) Caller {
	client, _ := ctx.Value(clientKey{}).(string)
	return Caller{server: s, grant: auth.GrantOf(ctx), client: client}
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
	sender := s.senderOf(ctx)
	if !s.accepts(sender.grant) {
		send(c.AppendError(nil, textTokenEnded))
		return nil
	}
	b, text, err := s.take(ctx, c, sender, frame)
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

// take decodes a frame once its sender is within its share of what followers have to do. text is an answer that takes
// the place of the frame's reply, "" for none. The error is that of Answer.
func (s *Server) take(ctx context.Context, c Codec, sender Caller, frame []byte) (b *batch, text string, err error) {
	b = s.takeBatch(c)
	b.watch.Start()
	b.sender = sender
	if err = s.holdInTurn(ctx, b, frame); err == nil {
		b.judge = b.sender.judge()
		b.add(frame, false)
		s.options.Metrics.lap(&b.watch, stageDecode)
		err = s.mayExecuteFrame(ctx, b)
	}
	switch {
	case err == nil:
		return b, "", nil
	case errors.Is(err, ErrUnauthorized):
		text, err = textTokenEnded, nil
	case errors.Is(err, errNoMemory):
		s.options.Metrics.hit(limitMemory)
		text, err = textNoMemory(s.limits.Load().FrameTimeout), nil
	}
	s.discard(b)
	return nil, text, err
}

// holdInTurn reserves memory for a frame that needs much (hold). Before that, it waits until the sender is within its
// share, because a frame that is decoded has already used the rate of its account. A frame that has itself reserved
// memory has waited in Admit; if its sender is above its share again, it cannot wait, and the error is ErrBusy.
// Otherwise the error is that of waitForTurn or hold.
func (s *Server) holdInTurn(ctx context.Context, b *batch, frame []byte) error {
	memory := b.codec.Memory(frame)
	if memory <= s.options.BatchMemoryMax {
		return s.hold(ctx, b, memory)
	}
	commands, _ := b.sender.expect(b.codec, frame)
	for {
		if len(frame) > smallFrameMax && b.sender.above(ctx, commands) {
			s.options.Metrics.hit(limitFollowers)
			return ErrBusy
		}
		if err := b.sender.waitForTurn(ctx, commands); err != nil {
			return err
		}
		if err := s.hold(ctx, b, memory); err != nil {
			return fmt.Errorf("session: wait for memory: %w", err)
		}
		if !b.sender.above(ctx, commands) {
			return nil
		}
		s.discard(b)
	}
}

// mayExecuteFrame waits before a decoded frame is executed. A frame that needs much memory has waited in holdInTurn; if
// only its commands show who pays, it cannot wait, and the error is ErrBusy.
func (s *Server) mayExecuteFrame(ctx context.Context, b *batch) error {
	if b.large {
		if b.sender.above(ctx, b.commands) {
			s.options.Metrics.hit(limitFollowers)
			return ErrBusy
		}
		return nil
	}
	if s.isDraining() {
		return nil
	}
	return b.sender.waitForTurn(ctx, b.commands)
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
