package accounts

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
	"outcry/internal/testing/trailtest"
)

// newWatched returns a view of accounts 1 to 3, which have cash and shares. Accounts 1 and 2 are watched.
func newWatched(t testing.TB) (*View, *memory) {
	m := new(memory)
	crowd(m, 3, 2)
	v := newView(m, nil)
	v.Watch("1")
	v.Watch("2")
	take(t, v)
	return v, m
}

// did returns the numbers of the events that changed an order.
func did(t testing.TB, v *View, id exchange.AccountID, order exchange.OrderID, seq uint64) (n []uint64) {
	t.Helper()
	events, err := v.Did(background, id, order, seq)
	require.NoError(t, err)
	for _, e := range events {
		n = append(n, e.N)
	}
	return n
}

// TestWhatACommandDidIsTold: Did returns all events of an order up to the command's record, and none after it.
func TestWhatACommandDidIsTold(t *testing.T) {
	v, m := newWatched(t)
	first := v.Seq()
	canceled := placed(1, 1, 0, exchange.Sell, 8)
	canceled.Kind = exchange.OrderCanceled
	reduced := placed(4, 2, 0, exchange.Buy, 3)
	reduced.Kind, reduced.Amend = exchange.OrderReduced, &exchange.Amendment{First: 4, Amount: 2, Open: 2}
	noted := reduced
	noted.Shares, noted.Ref = 0, "q"
	replaced := placed(6, 2, 0, exchange.Buy, 9)
	replaced.Kind = exchange.OrderReplaced
	replaced.Amend = &exchange.Amendment{First: 4, Amount: 9,
		Old: exchange.Cancel{Order: 4, Terms: reduced.Terms, Shares: 2}}
	m.add(placed(1, 1, 0, exchange.Sell, 10), taken(2, 2, 0, 1, 1), taken(3, 3, 0, 1, 1), canceled,
		placed(4, 2, 0, exchange.Buy, 5), placed(5, 1, 1, exchange.Buy, 5), reduced, noted, replaced)
	take(t, v)
	require.Equal(t, []uint64{4}, did(t, v, "1", 1, first+1))
	require.Equal(t, []uint64{4, 5}, did(t, v, "1", 1, first+2))
	require.Equal(t, []uint64{4, 5, 6}, did(t, v, "1", 1, first+3))
	require.Equal(t, []uint64{4, 5, 6, 7}, did(t, v, "1", 1, first+4))
	require.Equal(t, []uint64{4}, did(t, v, "2", 2, first+9))
	require.Equal(t, []uint64{5}, did(t, v, "2", 4, first+5))
	require.Equal(t, []uint64{5, 6}, did(t, v, "2", 4, first+8), "what only uses a ref is no event")
	require.Equal(t, []uint64{5, 6, 7}, did(t, v, "2", 4, first+9))
	require.Equal(t, []uint64{7}, did(t, v, "2", 6, first+9))
	require.Empty(t, did(t, v, "2", 1, first+9), "of another account")
	require.Empty(t, did(t, v, "3", 3, first+9), "not watched")
	_, err := v.Did(background, "9", 1, first)
	require.ErrorIs(t, err, ErrUnknownAccount)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err = v.Did(ctx, "1", 1, first+10)
	require.ErrorIs(t, err, context.Canceled)

	require.Equal(t, exchange.OrderID(6), v.snapshot(v.accounts["2"]).Orders[0].ID)
	events, err := v.Did(background, "2", 4, first+9)
	require.NoError(t, err)
	old := events[2].Orders[0]
	require.Equal(t, exchange.OrderID(4), old.ID)
	require.Equal(t, exchange.StatusReplaced, old.State)
	require.Equal(t, exchange.OrderID(6), old.By)
	require.Equal(t, exchange.Shares(2), old.Canceled)
	require.Equal(t, exchange.OrderID(6), events[2].Orders[1].ID)
	require.True(t, events[2].Orders[1].New)
	v.kept.accountMost = 3
	m.add(placed(7, 1, 1, exchange.Buy, 5))
	take(t, v)
	require.Equal(t, []uint64{7}, did(t, v, "1", 1, v.Seq()), "the older ones are not kept any more")
	require.Empty(t, did(t, v, "1", 1, first+3))
}

// TestWhoComesBackGetsWhatItMissed: a new subscription gets the missed events, as far as the bounds on events and bytes
// keep them.
func TestWhoComesBackGetsWhatItMissed(t *testing.T) {
	v, m := newWatched(t)
	v.kept.accountMost = 20
	m.add(placed(1, 1, 0, exchange.Sell, 1000))
	for id := 2; id <= 11; id++ {
		m.add(taken(id, 2, 0, 1, 1))
	}
	take(t, v)
	requireFits(t, v)
	for _, test := range []struct{ after, first, most int }{
		{-1, 0, 0}, {0, 1, 14}, {1, 2, 13}, {13, 14, 1}, {14, 0, 0}, {15, 0, -1},
	} {
		h := new(heard)
		snap, missed, leave := h.subscribe(t, v, "1", test.after)
		if test.after < 0 || test.most < 0 {
			require.Equal(t, uint64(14), snap.N)
			require.Equal(t, uint64(10), snap.LastFill)
			require.Len(t, snap.Orders, 1)
		} else {
			require.Len(t, missed, test.most)
		}
		for i, e := range missed {
			require.Equal(t, uint64(test.first+i), e.N)
		}
		leave()
		leave()
	}
	h := new(heard)
	_, _, leave := h.subscribe(t, v, "2", 13)
	for id := 12; id <= 31; id++ {
		m.add(taken(id, 2, 0, 1, 1))
	}
	take(t, v)
	requireFits(t, v)
	require.Len(t, h.events, 20)
	require.Equal(t, 20, h.flushed)
	leave()
	m.add(taken(32, 2, 0, 1, 1))
	take(t, v)
	require.Len(t, h.events, 20, "nothing comes once leave has returned")
	snap, missed, leave := h.subscribe(t, v, "2", 13)
	require.Nil(t, missed, "the event 14 is not kept")
	require.Equal(t, uint64(34), snap.N)
	leave()
	_, missed, leave = h.subscribe(t, v, "2", 14)
	require.Len(t, missed, 20)
	leave()

	// If all events together are too large, the oldest of all accounts are dropped.
	size := v.kept.newest.bytes
	v.kept.bytesMost = 10*size + size/2
	m.add(placed(40, 2, 1, exchange.Sell, 5))
	take(t, v)
	requireFits(t, v)
	require.LessOrEqual(t, v.kept.bytes, v.kept.bytesMost)
	require.NotEmpty(t, v.accounts["1"].watch.events)
	require.Less(t, len(v.accounts["1"].watch.events), 10)
	v.kept.bytesMost = size / 2
	m.add(placed(41, 2, 1, exchange.Sell, 5))
	take(t, v)
	require.Zero(t, v.kept.bytes, "one that is larger by itself is not kept")
	require.Nil(t, v.kept.oldest)
	requireFits(t, v)
	_, err := v.Subscribe("9", 0, false, h, nil)
	require.ErrorIs(t, err, ErrUnknownAccount)
}

// TestAnEventIsToldToAllBeforeTheNext: all listeners get an event before the next one, so that a door can encode it
// once and keep only one message.
func TestAnEventIsToldToAllBeforeTheNext(t *testing.T) {
	v, m := newWatched(t)
	var told []uint64
	for range 3 {
		_, err := v.Subscribe("1", 0, false, &teller{told: &told}, func(*Snapshot, []*exchange.AccountEvent) {})
		require.NoError(t, err)
	}
	m.add(placed(1, 1, 0, exchange.Sell, 10), placed(2, 1, 0, exchange.Sell, 10), placed(3, 2, 0, exchange.Sell, 10))
	take(t, v)
	require.Equal(t, []uint64{4, 4, 4, 5, 5, 5}, told)
}

// teller is a Listener that appends the numbers of its events to a list shared with others.
type teller struct {
	heard
	told *[]uint64
}

func (l *teller) Event(e *exchange.AccountEvent) { *l.told = append(*l.told, e.N) }

// TestWhatNobodyWantsIsForgotten: events are dropped some minutes after the last holder has left, and not before.
func TestWhatNobodyWantsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		crowd(m, 2, 1)
		m.add(placed(1, 1, 0, exchange.Sell, 10))
		f := running(t, m)
		defer f.stop()
		first, second := f.Watch("1"), f.Watch("1")
		never := f.Watch("8")
		f.limit.Store(6)
		require.NoError(t, f.Await(background, 6))
		_, _, leave := new(heard).subscribe(t, f.View, "2", -1)
		o := newMirror(t, f.View, "SYM0")
		kept := func() (events int, orders bool) {
			f.mu.RLock()
			defer f.mu.RUnlock()
			if w := f.accounts["1"].watch; w != nil {
				events = len(w.events)
			}
			return events, f.markets[0].resting != nil
		}
		first()
		first()
		time.Sleep(watchedFor + 2*sweepTime)
		events, orders := kept()
		require.Equal(t, 3, events, "somebody watches it still")
		require.True(t, orders)
		second()
		leave()
		o.leave()
		time.Sleep(watchedFor - time.Second)
		events, orders = kept()
		require.Equal(t, 3, events)
		require.True(t, orders)
		time.Sleep(time.Second + 2*sweepTime)
		events, orders = kept()
		require.Zero(t, events)
		require.False(t, orders)
		f.mu.RLock()
		require.Len(t, f.watches, 1, "of an account that is not opened")
		require.Zero(t, f.kept.bytes)
		f.mu.RUnlock()
		never()
		require.Empty(t, f.watches)
		require.Zero(t, f.unopened)
	})
}

// TestAccountsThatAreNotOpenedAreWatchedWithinABound: watching arbitrary ids cannot fill the memory.
func TestAccountsThatAreNotOpenedAreWatchedWithinABound(t *testing.T) {
	m := new(memory)
	v := newView(m, nil)
	for a := range unopenedMax + 10 {
		v.Watch(accountOf(a + 1))
	}
	require.Len(t, v.watches, unopenedMax)
	crowd(m, 1, 0)
	take(t, v)
	require.Len(t, v.accounts["1"].watch.events, 1)
	release := v.Watch(accountOf(unopenedMax + 5))
	require.Len(t, v.watches, unopenedMax+1, "the one that was opened does not count")
	release()
	require.Len(t, v.watches, unopenedMax)
}

// TestListenersHearOfTheEnd: End is called once, whatever ends the view, and later subscriptions fail.
func TestListenersHearOfTheEnd(t *testing.T) {
	for name, fails := range map[string]bool{"it fails": true, "it is stopped": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := new(memory)
				crowd(m, 1, 1)
				if fails {
					m.err = errors.New("the disk is gone")
				}
				f := running(t, m)
				f.limit.Store(3)
				require.NoError(t, f.Await(background, 3))
				h := new(heard)
				_, _, leave := h.subscribe(t, f.View, "1", -1)
				ended := make(chan error, 1)
				gone, err := f.ListenOrders("SYM0", &endOf{ended: ended}, func(*OrdersSnapshot) {})
				require.NoError(t, err)
				if fails {
					f.limit.Store(4)
					<-ended
				}
				f.stop()
				require.Len(t, h.ended, 1)
				if fails {
					require.ErrorContains(t, h.ended[0], "the disk is gone")
				}
				leave()
				gone()
				_, err = f.Subscribe("1", 0, false, h, nil)
				require.ErrorIs(t, err, ErrUnavailable)
				_, err = f.ListenOrders("SYM0", nil, nil)
				require.ErrorIs(t, err, ErrUnavailable)
				require.ErrorIs(t, f.Await(background, 9), ErrUnavailable)
				require.Len(t, h.ended, 1)
			})
		})
	}
}

// endOf is an OrdersListener that records the end.
type endOf struct{ ended chan error }

func (e *endOf) Orders(*OrdersChange) {}
func (e *endOf) Flush()               {}
func (e *endOf) End(err error)        { e.ended <- err }

// TestOpenOrdersInPages: pages for one symbol or for all, beginning above an id.
func TestOpenOrdersInPages(t *testing.T) {
	v, m := newWatched(t)
	for id := 1; id <= 10; id++ {
		m.add(placed(id, 1, id%2, exchange.Sell, 5))
	}
	take(t, v)
	for _, test := range []struct {
		sym         exchange.Symbol
		after, most int
		first, n    int
		more        bool
	}{
		{"", 0, 100, 1, 10, false}, {"", 0, 10, 1, 10, false}, {"", 0, 9, 1, 9, true}, {"", 4, 2, 5, 2, true},
		{"SYM1", 0, 100, 1, 5, false}, {"SYM1", 1, 4, 3, 4, false}, {"SYM0", 2, 2, 4, 2, true}, {"", 10, 5, 0, 0, false},
	} {
		orders, more, seq, err := v.OpenOrders("1", test.sym, exchange.OrderID(test.after), test.most)
		require.NoError(t, err)
		require.Equal(t, v.Seq(), seq)
		require.Equal(t, test.more, more, "%+v", test)
		require.Len(t, orders, test.n)
		if test.n > 0 {
			require.Equal(t, exchange.OrderID(test.first), orders[0].ID)
		}
	}
	_, _, _, err := v.OpenOrders("9", "", 0, 1)
	require.ErrorIs(t, err, ErrUnknownAccount)
	_, _, _, err = v.OpenOrders("1", "NONE", 0, 1)
	require.ErrorIs(t, err, ErrUnknownSymbol)
	_, err = v.ListenOrders("NONE", nil, nil)
	require.ErrorIs(t, err, ErrUnknownSymbol)
}

// flushes is a Listener that reports when it is flushed.
type flushes struct {
	heard
	flushed chan struct{}
}

func (f *flushes) Flush() { f.flushed <- struct{}{} }

// TestTheSyncWakesAViewThatSomebodyListensTo: a sync wakes the view before its next regular look, which is rare.
func TestTheSyncWakesAViewThatSomebodyListensTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		crowd(m, 1, 1)
		var limit atomic.Uint64
		limit.Store(3)
		notified := make(chan chan<- struct{}, 10)
		records := trail.FollowRecords(m, trailtest.Options, trail.FollowOptions{Limit: limit.Load},
			func(_ uint64, wake chan<- struct{}) { notified <- wake })
		v := NewView(Options{Records: records}, &exchange.Snapshot{})
		ctx, cancel := context.WithCancel(background)
		done := make(chan struct{})
		go func() {
			defer close(done)
			v.Run(ctx)
		}()
		time.Sleep(time.Hour)
		require.Empty(t, notified, "nobody is in a hurry")
		h := &flushes{flushed: make(chan struct{}, 1)}
		_, err := v.Subscribe("1", 0, false, h, func(*Snapshot, []*exchange.AccountEvent) {})
		require.NoError(t, err)
		var wake chan<- struct{}
		select {
		case wake = <-notified:
		case <-time.After(time.Minute):
			t.Fatal("nothing asks for the next sync")
		}
		begun := time.Now()
		m.add(placed(1, 1, 0, exchange.Sell, 5))
		limit.Store(4)
		wake <- struct{}{}
		<-h.flushed
		require.Zero(t, time.Since(begun))
		require.Len(t, h.events, 1)
		cancel()
		<-done
	})
}

// TestWhoIsNotWatchedCostsNothing: records of accounts without a watch make no events.
func TestWhoIsNotWatchedCostsNothing(t *testing.T) {
	m := new(memory)
	crowd(m, 2, 1)
	m.add(placed(1, 1, 0, exchange.Sell, 1e9))
	v := newView(m, nil)
	take(t, v)
	const orders = 2000
	allocated := func() (times, bytes uint64) {
		for id := range orders {
			m.add(taken(int(v.Seq())+id, 2, 0, 1, 1))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		take(t, v)
		runtime.ReadMemStats(&after)
		return (after.Mallocs - before.Mallocs) / orders, (after.TotalAlloc - before.TotalAlloc) / orders
	}
	allocated() // the memory for a chunk of records
	times, unwatched := allocated()
	require.LessOrEqual(t, times, uint64(4), "what decoding takes, and no more")
	v.Watch("1")
	times, watched := allocated()
	require.LessOrEqual(t, times, uint64(4), "an event is one piece")
	require.Greater(t, watched, unwatched+uint64(unsafe.Sizeof(eventMemory{})))
	require.Equal(t, v.accounts["1"].n, 3+3*uint64(orders))
}
