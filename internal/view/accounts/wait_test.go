package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
	"outcry/internal/testing/trailtest"
)

// pollTime is above the interval at which a view polls while a caller waits and no sync wakes the view.
const pollTime = 2 * time.Millisecond

// asked is a query in progress.
type asked struct {
	result exchange.Result
	done   chan struct{}
}

// ask starts a query for an account, as of record seq, in a goroutine.
func ask(ctx context.Context, v *View, id exchange.AccountID, seq uint64) *asked {
	a := &asked{inView(seq), make(chan struct{})}
	go func() {
		defer close(a.done)
		v.Show(ctx, &exchange.Command{Kind: exchange.ShowAccount, Account: id}, &a.result, true)
	}()
	return a
}

func (a *asked) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// following is a view of accounts 1 and 2 that follows the journal up to record limit, which may be raised.
type following struct {
	*View
	limit atomic.Uint64
	log   bytes.Buffer
	stop  func()
}

func running(t *testing.T, m *memory) *following {
	f := new(following)
	records := trail.FollowRecords(m, trailtest.Options, trail.FollowOptions{Limit: f.limit.Load}, nil)
	f.View = NewView(Options{Records: records, Log: slog.New(slog.NewTextHandler(&f.log, nil))}, &exchange.Snapshot{})
	ctx, cancel := context.WithCancel(background)
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	f.stop = func() {
		cancel()
		running.Wait()
	}
	return f
}

func TestAReplyWaitsUntilTheViewHasWhatWasBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		crowd(m, 2, 1) // five records
		f := running(t, m)
		defer f.stop()
		early := ask(background, f.View, "2", 2)
		var all []*asked
		for range 1000 {
			all = append(all, ask(background, f.View, "1", 5))
		}
		synctest.Wait()
		require.False(t, early.isDone(), "nothing may be told yet")
		f.limit.Store(4)
		time.Sleep(2 * pollTime)
		synctest.Wait()
		require.True(t, early.isDone())
		require.Equal(t, exchange.OK, early.result.Reason)
		for _, a := range all {
			require.False(t, a.isDone())
		}
		f.limit.Store(5)
		time.Sleep(2 * pollTime)
		for _, a := range all {
			<-a.done
			require.Equal(t, "1", string(a.result.Answer.Account.ID))
		}
		require.False(t, f.records.Waited())
		unknown := ask(background, f.View, "3", 5)
		<-unknown.done
		require.Equal(t, exchange.UnknownAccount, unknown.result.Reason)
	})
}

func TestAWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		crowd(m, 1, 0)
		f := running(t, m)
		defer f.stop()
		begun := time.Now()
		ctx, cancel := context.WithCancel(background)
		gone, late := ask(ctx, f.View, "1", 9), ask(background, f.View, "1", 9)
		synctest.Wait()
		cancel()
		<-gone.done
		require.Equal(t, exchange.Result{Reason: exchange.ViewUnavailable}, gone.result)
		require.Zero(t, time.Since(begun))
		<-late.done
		require.Equal(t, exchange.ViewUnavailable, late.result.Reason)
		require.Equal(t, waitTimeout, time.Since(begun))
		require.False(t, f.records.Waited(), "those that have gone are forgotten")
		require.NoError(t, f.Err())
	})
}

// TestAViewThatFailsSaysSo: waiting and later queries get the error, and it is logged once.
func TestAViewThatFailsSaysSo(t *testing.T) {
	foreign := placed(7, 1, 0, exchange.Buy, 1)
	for name, spoil := range map[string]func(m *memory){
		"account 9 was never opened": func(m *memory) { m.add(placed(7, 9, 0, exchange.Buy, 1)) },
		"symbol SYM5 was never made": func(m *memory) { m.add(placed(7, 1, 5, exchange.Buy, 1)) },
		"order 7 exists already":     func(m *memory) { m.add(foreign, foreign) },
		"but fewer are open":         func(m *memory) { m.add(taken(7, 1, 0, 2, 3)) },
		"an amount is negative":      func(m *memory) { m.add(placed(7, 1, 0, exchange.Sell, 2e15)) },
		"symbol SYM0 exists already": func(m *memory) { m.add(exchange.Event{Kind: exchange.SymbolMade, Symbol: "SYM0"}) },
		"account 1 exists already":   func(m *memory) { m.add(exchange.Event{Kind: exchange.AccountOpened, Account: "1"}) },
		"the disk is gone":           func(m *memory) { m.err = errors.New("the disk is gone") },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := new(memory)
			crowd(m, 2, 1)
			spoil(m)
			f := running(t, m)
			waits := ask(background, f.View, "1", 100)
			synctest.Wait()
			f.limit.Store(100)
			<-waits.done
			require.Equal(t, exchange.ViewUnavailable, waits.result.Reason)
			later := ask(background, f.View, "1", 1)
			<-later.done
			require.Equal(t, exchange.ViewUnavailable, later.result.Reason)
			require.ErrorContains(t, f.Err(), name)
			f.stop()
			require.Equal(t, 1, bytes.Count(f.log.Bytes(), []byte("\n")))
			require.Contains(t, f.log.String(), name)
		})
	}
}

// TestAViewTakesEachRecordOnce: a repeated or a skipped record ends the view.
func TestAViewTakesEachRecordOnce(t *testing.T) {
	for _, moved := range []int{-1, 1} {
		m := new(memory)
		crowd(m, 1, 1)
		v := newView(m, nil)
		take(t, v)
		m.after += uint64(moved)
		m.add(placed(1, 1, 0, exchange.Buy, 5))
		follows := fmt.Sprintf("record %d follows record %d", v.Seq()+uint64(1+moved), v.Seq())
		require.ErrorContains(t, v.step(background), follows)
		require.Zero(t, v.accounts["1"].orders.len())
	}
}

func TestAViewThatHasEndedAnswersNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, new(memory))
		waits := ask(background, f.View, "1", 1)
		synctest.Wait()
		f.stop()
		<-waits.done
		require.Equal(t, exchange.ViewUnavailable, waits.result.Reason)
		later := ask(background, f.View, "1", 1)
		<-later.done
		require.Equal(t, exchange.ViewUnavailable, later.result.Reason)
	})
}

// TestASnapshotThatDoesNotFitIsNoView: a view of an inconsistent snapshot refuses queries, and Run returns.
func TestASnapshotThatDoesNotFitIsNoView(t *testing.T) {
	for _, snap := range []exchange.Snapshot{
		{Positions: []exchange.PositionState{{Account: "1", Symbol: "A"}}},
		{Orders: []exchange.OrderState{{ID: 1, Account: "1", Symbol: "A"}}},
		{Accounts: []exchange.AccountState{{ID: "1"}}, Symbols: []exchange.SymbolState{{Symbol: "A"}},
			Orders: []exchange.OrderState{{ID: 1, Account: "1", Symbol: "A"}}},
	} {
		v := newView(new(memory), &snap)
		require.Error(t, v.Err())
		v.Run(background)
		a := ask(background, v, "1", 0)
		<-a.done
		require.Equal(t, exchange.ViewUnavailable, a.result.Reason)
	}
}

// history has fills 11 to 5000 of every account, or those from number first on. If away is set, it fails.
type history struct {
	away  bool
	first uint64
	asked []uint64
}

func (h *history) Fills(_ context.Context, _ exchange.AccountID, after uint64, most int) (
	all []exchange.AccountFill, first uint64, err error,
) {
	h.asked = append(h.asked, after, uint64(most))
	if h.away {
		return nil, 0, errors.New("away")
	}
	first = max(after+1, h.first, 11)
	for n := first; n <= min(5000, after+uint64(most)); n++ {
		all = append(all, exchange.AccountFill{N: n, Shares: 99})
	}
	return all, first, nil
}

// TestOlderFillsComeFromTheDatabase: a page may consist of fills from the database and of fills in memory.
func TestOlderFillsComeFromTheDatabase(t *testing.T) {
	m, h := new(memory), new(history)
	m.add(placed(1, 1, 0, exchange.Sell, 10))
	for id := range 10 {
		m.add(taken(2+id, 2, 0, 1, 1))
	}
	held := exchange.Shares(1000).Position()
	v := newView(m, &exchange.Snapshot{
		Accounts: []exchange.AccountState{{ID: "1", Fills: 5000},
			{ID: "2", Balance: exchange.Notional(1e8, 1e8), Fills: 6000}},
		Symbols:   []exchange.SymbolState{{Symbol: symbolOf(0)}},
		Positions: []exchange.PositionState{{Symbol: symbolOf(0), Account: "1", Shares: held}},
	})
	v.options.Fills = h.Fills
	take(t, v)
	page := newestFills(t, v, "1")
	require.Equal(t, []uint64{4010, 990}, h.asked)
	require.Len(t, page.Fills, 1000)
	require.Zero(t, page.More)
	for i, f := range page.Fills {
		require.Equal(t, uint64(4011+i), f.N)
		require.Equal(t, f.N <= 5000, f.Shares == 99)
	}
	page = fillsAfter(t, v, "1", 10)
	require.Len(t, page.Fills, 1000)
	require.Equal(t, uint64(1010), page.More)
	require.Len(t, fillsAfter(t, v, "1", 5003).Fills, 7)
	require.Equal(t, []uint64{4010, 990, 10, 1000}, h.asked, "not for what is kept")

	// If the database's fills begin at first, so does the newest page: it has some of the database's fills, or none.
	for _, first := range []uint64{4500, 5001} {
		h.first = first
		page = newestFills(t, v, "1")
		require.Len(t, page.Fills, int(5010-first+1))
		require.Equal(t, first, page.Fills[0].N)
		require.Equal(t, first <= 5000, page.Fills[0].Shares == 99)
		require.Equal(t, uint64(5010), page.Fills[len(page.Fills)-1].N)
	}
	h.first = 0

	for _, test := range []struct {
		id    exchange.AccountID
		away  bool
		after uint64
		want  exchange.RejectReason
	}{
		{"1", true, 0, exchange.HistoryUnavailable},
		{"1", false, 9, exchange.FillsForgotten},
		{"1", false, 10, exchange.OK},
		{"2", false, 5500, exchange.HistoryUnavailable}, // the database does not have them yet
		{"2", true, 6000, exchange.OK},
	} {
		h.away = test.away
		r := inView(v.Seq())
		c := exchange.Command{Kind: exchange.ListFills, Account: test.id,
			More: &exchange.CommandMore{After: test.after, HasAfter: true}}
		v.Show(background, &c, &r, true)
		require.Equal(t, test.want, r.Reason)
		require.Equal(t, test.want == exchange.OK, r.Answer.Fills != nil)
	}
}

// wait returns the result of a query once it is done.
func (a *asked) wait() exchange.Result {
	<-a.done
	return a.result
}

// buyOf returns the record of a buy of account 1 that rests.
func buyOf(id exchange.OrderID) exchange.Event {
	return exchange.Event{Kind: exchange.OrderAccepted, Order: id, Account: accountOf(1), Symbol: symbolOf(0),
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 1e8}, Shares: 5}
}

// panicking is a listener that panics at its first event, and also at its end if last is set.
type panicking struct {
	last  string
	ended error
}

func (*panicking) Event(*exchange.AccountEvent) { panic("a bug") }
func (*panicking) Flush()                       {}

func (l *panicking) End(err error) {
	if l.ended = err; l.last != "" {
		panic(l.last)
	}
}

// TestAViewThatPanicsEndsAsOneThatFails: its callers and listeners are released, and the reason that they get contains
// no stack trace; only the log has it.
func TestAViewThatPanicsEndsAsOneThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		crowd(m, 2, 1) // five records
		m.add(buyOf(1))
		f := running(t, m)
		f.limit.Store(3)
		require.Equal(t, exchange.OK, ask(background, f.View, "1", 3).wait().Reason)
		l := new(panicking)
		_, err := f.Subscribe("1", 0, false, l, func(*Snapshot, []*exchange.AccountEvent) {})
		require.NoError(t, err)
		late := ask(background, f.View, "1", 6)
		f.limit.Store(6)
		require.Equal(t, exchange.ViewUnavailable, late.wait().Reason)
		f.stop()
		require.EqualError(t, f.Err(), "accounts: panic: a bug")
		require.ErrorIs(t, l.ended, f.Err())
		require.Contains(t, f.log.String(), "applyAndDeliver", "the log has the stack")
		require.Equal(t, exchange.ViewUnavailable, ask(background, f.View, "1", 6).wait().Reason)
	})
}

// TestAListenerThatPanicsAtTheEndEndsAlone: the view has already failed, and each listener is ended nevertheless.
func TestAListenerThatPanicsAtTheEndEndsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		crowd(m, 2, 1) // five records
		m.add(buyOf(1))
		f := running(t, m)
		f.limit.Store(5)
		require.NoError(t, f.Await(background, 5))
		var all []*panicking
		for _, account := range []exchange.AccountID{"1", "1", "2"} {
			l := &panicking{last: "another bug"}
			_, err := f.Subscribe(account, 0, false, l, func(*Snapshot, []*exchange.AccountEvent) {})
			require.NoError(t, err)
			all = append(all, l)
		}
		ended := make(chan error, 1)
		_, err := f.ListenOrders(symbolOf(0), &endOf{ended: ended}, func(*OrdersSnapshot) {})
		require.NoError(t, err)
		f.limit.Store(6)
		require.EqualError(t, <-ended, "accounts: panic: a bug")
		f.stop()
		for _, l := range all {
			require.EqualError(t, l.ended, "accounts: panic: a bug")
		}
		require.Equal(t, 3, strings.Count(f.log.String(), "panic: another bug"))
		_, err = f.Subscribe("2", 0, false, all[0], nil)
		require.ErrorIs(t, err, ErrUnavailable)
	})
}

// TestAViewThatFailsShowsNoHalfOfARecord: the second of two cancels of one record is impossible. Nothing that is read
// afterwards has the first one.
func TestAViewThatFailsShowsNoHalfOfARecord(t *testing.T) {
	m := new(memory)
	crowd(m, 2, 1)
	m.add(buyOf(1))
	v := newView(m, nil)
	take(t, v)
	first := ordersOf(t, v, "1", "", 0).Orders[0]
	m.add(exchange.Event{Kind: exchange.OrdersCanceled, Account: "1", Cancels: []exchange.Cancel{
		{Order: first.ID, Symbol: first.Symbol, Terms: first.Terms, Shares: first.Open},
		{Order: first.ID + 1000, Symbol: first.Symbol, Terms: first.Terms, Shares: 1}}})
	require.Error(t, v.step(background))
	r := inView(v.Seq())
	r.Pending = exchange.Nowhere
	require.Zero(t, v.read(&exchange.Command{Kind: exchange.ListOrders, Account: "1"}, &r))
	require.Equal(t, exchange.ViewUnavailable, r.Reason)
	require.Nil(t, r.Answer)
}
