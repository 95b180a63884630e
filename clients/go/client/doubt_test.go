package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// refusal is the error reply to buys(1) with a ref.
const refusal = `<error sym="SPY" amount="1" limit="1" ref="r">not now</error>`

// TestARefusalOfWhatWasSentBeforeIsNoProof: if a resent command is refused, it may still have been executed the first
// time, because the exchange may refuse the second copy before it looks at the ref.
func TestARefusalOfWhatWasSentBeforeIsNoProof(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, func(p *peer) { p.readFrame() }, func(p *peer) {
			p.readFrame()
			p.say(refusal + `<error id="7">not now</error>`)
			p.readFrame()
			p.say(refusal)
		}))
		results := answered(t, send(t, c, buys(1).WithRef("r"), Query("1", 7)))
		refused := results[0].Refused
		require.Equal(t, &Refused{Sent: buys(1).WithRef("r"), Text: "not now", MaybeDone: true}, refused)
		require.True(t, MaybeDone(results[0].Err()))
		require.EqualError(t, refused,
			"client: account 1 buys 1 SPY at 1 (ref r): refused when it was sent again; whether the first attempt was "+
				"executed is "+
				"unknown: not now")
		require.False(t, MaybeDone(results[1].Err()), "a query changes nothing")

		_, err := c.Order(background, buys(1).WithRef("r"))
		require.EqualError(t, err, "client: account 1 buys 1 SPY at 1 (ref r): refused: not now", "it was sent once")
		require.False(t, MaybeDone(err))
	})
}

// TestARefusalOfWhatDidNotLeaveWholeBeforeIsOne: a frame that was only partly sent has no effect, so a refusal
// of the second sending is final.
func TestARefusalOfWhatDidNotLeaveWholeBeforeIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, func(p *peer) {
			p.Read(make([]byte, 10))
		}, func(p *peer) {
			p.readFrame()
			p.say(refusal)
		}))
		_, err := c.Order(background, buys(1).WithRef("r"))
		require.ErrorContains(t, err, "refused: not now")
		require.False(t, MaybeDone(err))
	})
}

// TestWhoWaitsNoLongerForWhatIsQueuedIsToldThatItGoesOn: if a Wait ends while its call is queued, the error
// says that the command may still be done. It is sent on the next connection.
func TestWhoWaitsNoLongerForWhatIsQueuedIsToldThatItGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, func(*peer) {}, nil, nil, nil, honest))
		time.Sleep(time.Second)
		call := send(t, c, buys(1))
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		_, err := call.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, MaybeDone(err))
		require.EqualValues(t, 3, answered(t, call)[0].Order, "it was done later")

		results, err := call.Wait(ctx)
		require.NoError(t, err, "an answer that is there is better than no time")
		require.EqualValues(t, 3, results[0].Order)
	})
}

// TestWhoLeavesIsToldWhetherTheQueueStillHadTheCall: leave removes a call from the queue and reports it as not
// sent in one step, so that a call reported as not sent is never sent later.
func TestWhoLeavesIsToldWhetherTheQueueStillHadTheCall(t *testing.T) {
	c := &Client{places: make(chan struct{}, 3), wake: make(chan struct{}, 1)}
	add := func() *Call {
		call := &Call{client: c, commands: []Command{buys(1)}, answered: make(chan struct{})}
		c.places <- struct{}{}
		require.True(t, c.enqueue(call))
		return call
	}
	call := add()
	require.False(t, call.leave(), "it was not sent")
	require.Empty(t, c.dequeue(), "and will not be")

	call = add()
	require.Equal(t, []*Call{call}, c.dequeue())
	require.True(t, call.leave(), "it is being sent")
	require.False(t, c.mayTryAgain(call, time.Now()))

	call = add()
	require.Equal(t, []*Call{call}, c.dequeue())
	c.queue = []*Call{call} // as if its connection broke and it was queued again
	require.True(t, call.leave(), "it may have arrived before")
	require.Empty(t, c.dequeue())
}

// TestWhoShowsNoTokenIsToldSoAtOnce: without a token, neither a query nor an order with a ref is retried, and
// the error says that nothing was done.
func TestWhoShowsNoTokenIsToldSoAtOnce(t *testing.T) {
	for _, command := range []Command{Query("1", 7), Buy("1", "A", Whole(1), Whole(1)).WithRef("r")} {
		inBubble(t, func(t *testing.T) {
			began := time.Now()
			b := broken(t, send(t, open(t, played(t, Options{}, func(p *peer) {
				p.readFrame()
				p.write(string(wire.AppendFrame(nil, []byte(notTaken))))
			})), command))
			require.Equal(t, &Unauthorized{Text: wire.TextUnauthorized + " (connection 7)", None: true}, b.Err)
			require.ErrorContains(t, b, "no token was presented: ")
			require.False(t, b.MaybeDone)
			require.Zero(t, time.Since(began))
		})
	}
}
