package binance

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/testing/trailtest"
	"outcry/internal/view/accounts"
)

// noRecords is an empty journal.
type noRecords struct{}

func (noRecords) TryNext() (seq uint64, record []byte, ok bool, err error) { return 0, nil, false, nil }
func (noRecords) Close()                                                   {}

// heavy is an exchange each of whose commands is more work than an account may leave to followers.
type heavy struct {
	door.Exchange
	executed int
}

func (x *heavy) Execute(_ context.Context, _ []engine.Request, results []exchange.Result) (engine.Mark, error) {
	x.executed++
	clear(results)
	results[0].Work, results[0].Seq = 1<<17, uint64(x.executed)
	return engine.Mark{}, nil
}

func (*heavy) Ready(commands []engine.Request) int { return len(commands) }

// idle is a follower that does nothing.
type idle struct{}

func (idle) Position() uint64 { return 0 }
func (idle) Visible() uint64  { return math.MaxUint64 }
func (idle) Await(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// waiting returns a door whose account 1 is above its share, and what it executes.
func waiting(t *testing.T) (*Door, *heavy, *door.Server) {
	x := &heavy{}
	server := door.New(x, door.Options{Followers: []door.Follower{idle{}}})
	view := accounts.NewView(accounts.Options{Records: trailtest.Follow(noRecords{}, 5, nil),
		Log: slog.New(slog.DiscardHandler)}, &exchange.Snapshot{})
	d := New(Options{Sessions: func() *door.Server { return server }, View: func() *accounts.View { return view }})
	_, problem := d.do(&request{ctx: t.Context(), account: "1"}, exchange.Command{Kind: exchange.PlaceOrder})
	require.Nil(t, problem)
	return d, x, server
}

// TestAWaitIsNoLongerThanItsWindow: a request that waits before it is executed is refused as too late at the end of its
// recvWindow, and as not done if the wait ends for another reason.
func TestAWaitIsNoLongerThanItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x, server := waiting(t)
		ask := func(window, sentBefore time.Duration) (time.Duration, *Error) {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
			defer cancel()
			_, problem := d.one(&request{ctx: ctx, account: "1", expires: begun.Add(window - sentBefore)},
				exchange.Command{Kind: exchange.CancelOrder, Order: 1})
			return time.Since(begun), problem
		}
		took, problem := ask(windowStandard, time.Second)
		require.Equal(t, errTooOld, problem)
		require.Equal(t, windowStandard-time.Second, took)
		took, problem = ask(windowMax, 0)
		require.Equal(t, errNow, problem, "its context has ended")
		require.Equal(t, requestTimeout, took)
		_, problem = ask(time.Second, 2*time.Second)
		require.Equal(t, errTooOld, problem, "it has waited for something else before")
		require.Equal(t, 1, x.executed)
		go func() {
			time.Sleep(time.Second)
			server.Abort()
		}()
		took, problem = ask(windowStandard, 0)
		require.Equal(t, errNow, problem)
		require.Equal(t, time.Second, took)
		require.Equal(t, 1, x.executed)
	})
}

// TestARequestIsRefusedWhoseWindowEndsInAWaitForTheView: nothing is executed for a request that is too late by then,
// even if its account is not above its share.
func TestARequestIsRefusedWhoseWindowEndsInAWaitForTheView(t *testing.T) {
	d, x, _ := waiting(t)
	q := &request{ctx: t.Context(), account: "2", expires: time.Now().Add(-time.Millisecond)}
	_, problem := d.one(q, exchange.Command{Kind: exchange.PlaceOrder})
	require.Equal(t, errTooOld, problem)
	require.Equal(t, 1, x.executed)
	q.expires = time.Now().Add(time.Minute)
	_, problem = d.one(q, exchange.Command{Kind: exchange.PlaceOrder})
	require.Nil(t, problem)
}
