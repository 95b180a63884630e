package asof

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/trailtest"
	"outcry/internal/view/accounts"
)

const unit = 100_000_000

// twin computes the expected orders slowly and simply: for each query, it replays all records up to the wanted one.
// It is also the History of the tested Orders, and counts their queries.
type twin struct {
	events []exchange.Event // the events of records 1, 2, 3, …
	away   error            // if not nil, all methods of History return it
	asked  map[exchange.Moment]int
}

// replay returns an order after record seq, or after the last of its own records up to seq.
func (w *twin) replay(id exchange.OrderID, seq uint64, ownOnly bool) (o exchange.OrderWithFills, found bool) {
	if ownOnly {
		last := uint64(0)
		for i := range w.events[:seq] {
			if e := &w.events[i]; e.Order == id && (accepts(e) || e.Kind == exchange.OrderContinued) {
				last = uint64(i + 1)
			}
		}
		seq = last
	}
	fills, trades := map[exchange.AccountID]uint64{}, map[exchange.Symbol]uint64{}
	for i := range w.events[:seq] {
		e := &w.events[i]
		if accepts(e) && e.Order == id {
			o, found = accepted(e), true
		}
		for _, f := range e.Fills {
			trades[e.Symbol]++
			for _, side := range []exchange.AccountFill{
				{Order: f.Resting, Side: exchange.Buy + exchange.Sell - e.Side, Maker: true},
				{Order: e.Order, Side: e.Side},
			} {
				owner := e.Account
				if side.Maker {
					owner = f.Account
				}
				fills[owner]++
				if side.Order == id {
					side.N, side.Symbol, side.Shares, side.Price = fills[owner], e.Symbol, f.Shares, f.Price
					side.Time, side.Trade = e.Time, trades[e.Symbol]
					o.Fills = append(o.Fills, side)
					o.Executed, o.Open, o.Changed = o.Executed+f.Shares, o.Open-f.Shares, e.Time
					o.Notional = o.Notional.Add(exchange.Notional(f.Shares, f.Price))
				}
			}
		}
		withdraw(&o, id, e)
	}
	o.Settle(o.Why)
	if o.By != 0 {
		o.State = exchange.StatusReplaced
	}
	return o, found
}

func accepts(e *exchange.Event) bool {
	return e.Kind == exchange.OrderAccepted || e.Kind == exchange.OrderReplaced
}

// accepted returns a new order without its fills.
func accepted(e *exchange.Event) (o exchange.OrderWithFills) {
	o.Account = e.Account
	o.OrderDetail = exchange.OrderDetail{ID: e.Order, Symbol: e.Symbol, Ref: e.Ref, Terms: e.Terms, Unsent: e.Unsent,
		OnDisconnect: e.OnDisconnect, Open: e.Shares, Time: e.Time, Changed: e.Time}
	if e.Kind == exchange.OrderReplaced {
		o.Ref, o.NewRef, o.Before, o.Replaces = "", e.Ref, e.Amend.Executed, e.Amend.Old.Order
	}
	return o
}

// withdraw removes from an order the shares that a record canceled, replaced or reduced.
func withdraw(o *exchange.OrderWithFills, id exchange.OrderID, e *exchange.Event) {
	off := func(order exchange.OrderID, shares exchange.Shares, why exchange.WhyCanceled) {
		if order == id {
			o.Canceled, o.Open, o.Changed, o.Why = shares, 0, e.Time, why
		}
	}
	for i := range e.Own {
		off(e.Own[i].Order, e.Own[i].Shares, exchange.CanceledSTP)
	}
	if e.Rest > 0 {
		why := exchange.CanceledRest
		if e.TIF == exchange.GTC || e.STP == exchange.CancelBoth && len(e.Own) > 0 {
			why = exchange.CanceledSTP
		}
		off(e.Order, e.Rest, why)
	}
	switch e.Kind {
	case exchange.OrderReplaced:
		if old := &e.Amend.Old; old.Order == id {
			off(id, old.Shares, exchange.NotCanceled)
			o.By = e.Order
		}
	case exchange.OrderReduced:
		if e.Order == id {
			o.NewRef = e.Ref
			if e.Shares > 0 {
				o.Open, o.Reduced, o.Changed = o.Open-e.Shares, o.Reduced+e.Shares, e.Time
			}
		}
	case exchange.OrderCanceled:
		off(e.Order, e.Shares, exchange.CanceledByOwner)
	case exchange.OrdersCanceled:
		for i := range e.Cancels {
			off(e.Cancels[i].Order, e.Cancels[i].Shares, exchange.CanceledByOwner)
		}
	case exchange.AccountOpened, exchange.SymbolMade, exchange.SharesDeposited, exchange.OrderAccepted,
		exchange.OrderContinued, exchange.SymbolHalted, exchange.SymbolResumed, exchange.AccountRuled, exchange.SymbolRuled,
		exchange.SwitchSet:
	}
}

func (w *twin) WaitApplied(context.Context, uint64) error { return w.away }

func (w *twin) OrderAt(_ context.Context, id exchange.OrderID, at exchange.Moment) (
	o exchange.OrderWithFills, found bool, err error,
) {
	if w.away != nil {
		return o, false, w.away
	}
	seq := uint64(len(w.events))
	if at.Seq != 0 {
		seq = at.Seq
	}
	o, found = w.replay(id, seq, at.Own)
	at.Seq = min(at.Seq, 1) // counts the queries as of any record together
	w.asked[at]++
	return o, found, nil
}

func (w *twin) RefRecord(_ context.Context, account exchange.AccountID, ref exchange.Ref) (
	seq uint64, id exchange.OrderID, found bool, err error,
) {
	for i := range w.events {
		if e := &w.events[i]; e.Ref == ref && e.Account == account {
			return uint64(i + 1), e.Order, true, w.away
		}
	}
	return 0, 0, false, w.away
}

func (w *twin) AccountOrders(context.Context, exchange.AccountID, exchange.Symbol, exchange.OrderID, int64, int64,
	int) ([]exchange.OrderDetail, error) {
	panic("not used here")
}

func (w *twin) Trades(context.Context, exchange.AccountID, exchange.Symbol, uint64, exchange.OrderID, int64, int64,
	int) ([]exchange.AccountFill, error) {
	panic("not used here")
}

// stage is a view that follows a journal, with the twin of that journal.
type stage struct {
	t       *testing.T
	journal *journal.Journal
	reader  *journal.Reader
	view    *accounts.View
	twin    *twin
	orders  Orders
}

func newStage(t *testing.T) *stage {
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 20})
	require.NoError(t, err)
	s := &stage{t: t, journal: j, twin: &twin{asked: map[exchange.Moment]int{}}}
	s.reader, err = j.NewReader(1)
	require.NoError(t, err)
	records, err := j.NewReader(1)
	require.NoError(t, err)
	s.view = accounts.NewView(accounts.Options{Records: trailtest.Follow(records, 0, j.Notify),
		Log: slog.New(slog.DiscardHandler)}, &exchange.Snapshot{})
	s.orders = Orders{View: func() *accounts.View { return s.view }, History: func() History { return s.twin },
		Patience: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.view.Run(ctx); close(ended) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		s.reader.Close()
		j.Close()
	})
	return s
}

// read passes new records to the twin.
func (s *stage) read() {
	for {
		_, record, ok, err := s.reader.TryNext()
		require.NoError(s.t, err)
		if !ok {
			return
		}
		var e exchange.Event
		require.NoError(s.t, exchange.DecodeEvent(record, &e))
		s.twin.events = append(s.twin.events, e)
	}
}

// write appends a record, and waits until it is durable.
func (s *stage) write(e *exchange.Event) {
	seq, err := s.journal.Append(exchange.AppendEvent(nil, e))
	require.NoError(s.t, err)
	require.NoError(s.t, s.journal.Wait(s.t.Context(), seq))
	s.read()
}

// same requires that an order equals the twin's: as of its own records, as of a record, and now.
func (s *stage) same(id exchange.OrderID, account exchange.AccountID, seq uint64, fills bool) {
	ctx, q := s.t.Context(), Query{Account: account, Order: id, Seq: seq, Fills: fills}
	require.NoError(s.t, s.view.Await(ctx, uint64(len(s.twin.events))))
	want, _ := s.twin.replay(id, seq, true)
	got, err := s.orders.First(ctx, q)
	require.NoError(s.t, err)
	s.equal(&want, &got, fills, "own records of order %d up to %d", id, seq)

	want, _ = s.twin.replay(id, seq, false)
	got, err = s.orders.At(ctx, q)
	require.NoError(s.t, err)
	got.NewRef = want.NewRef // no event has the ref of an amend that changes nothing else
	s.equal(&want, &got, fills, "order %d as of record %d", id, seq)

	got, at, err := s.orders.Now(ctx, q)
	require.NoError(s.t, err)
	require.Equal(s.t, uint64(len(s.twin.events)), at)
	want, _ = s.twin.replay(id, at, false)
	got.NewRef = want.NewRef
	s.equal(&want, &got, fills, "order %d now", id)
}

func (s *stage) equal(want, got *exchange.OrderWithFills, fills bool, what string, which ...any) {
	s.t.Helper()
	if !fills {
		got.Fills = want.Fills
	}
	require.Equal(s.t, *want, *got, append([]any{what}, which...)...)
}

// TestAnOrderIsWhatAReplayOfItsRecordsSays compares random orders with the twin as of random records. The view keeps
// all events of account 1, the later ones of account 2, and none of account 3.
func TestAnOrderIsWhatAReplayOfItsRecordsSays(t *testing.T) {
	budget.SkipRaced(t, "one goroutine replays a journal again and again")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r, s := rand.New(rand.NewPCG(seed, 0)), newStage(t)
	now := int64(1e18)
	x := engine.New(engine.Options{Journal: s.journal, State: exchange.NewState(),
		Now: func() int64 { now += r.Int64N(1e9); return now }})
	defer x.Close()
	newest := exchange.OrderID(0)
	do := func(c exchange.Command) {
		results := make([]exchange.Result, 1)
		mark, err := x.Execute(t.Context(), []engine.Request{{Command: c}}, results)
		require.NoError(t, err)
		require.NoError(t, x.Durable(t.Context(), mark))
		if newest = max(newest, results[0].Order); results[0].Amended != nil {
			newest = max(newest, results[0].Amended.By)
		}
		s.read()
	}
	do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "A"})
	for _, id := range owners {
		do(exchange.Command{Kind: exchange.OpenAccount, Account: id, Balance: exchange.Notional(unit, 1e6*unit)})
		do(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: id,
			Deposited: exchange.Shares(1e6 * unit).Position()})
	}
	s.view.Watch("1")
	commands, halfway := budget.Of(600), exchange.OrderID(0) // halfway is an order that had executed before the watch
	for n := 0; n < commands || halfway == 0; n++ {
		id := newest - min(max(newest, 1)-1, exchange.OrderID(r.IntN(12)))
		recent, _ := s.twin.replay(id, uint64(len(s.twin.events)), false)
		if n >= commands/2 && halfway == 0 && recent.Account == "2" && recent.Open > 0 && recent.Executed > 0 {
			halfway = recent.ID
			require.NoError(t, s.view.Await(t.Context(), uint64(len(s.twin.events))))
			s.view.Watch("2")
			do(exchange.Command{Kind: exchange.CancelOrder, Account: "2", Order: halfway})
			continue
		}
		do(draw(r, &recent, n))
	}
	do(exchange.Command{Kind: exchange.PlaceOrder, Account: "1", Symbol: "A", Shares: unit,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}}) // an order that stays open
	s.same(halfway, "2", uint64(len(s.twin.events)), true)
	kinds := map[exchange.OrderStatus]int{}
	for range budget.Of(1500) {
		id := 1 + exchange.OrderID(r.Uint64N(uint64(newest)))
		o, found := s.twin.replay(id, uint64(len(s.twin.events)), false)
		require.True(t, found)
		first := uint64(0)
		for first = 1; s.twin.events[first-1].Order != id || !accepts(&s.twin.events[first-1]); first++ {
		}
		s.same(id, o.Account, first+r.Uint64N(uint64(len(s.twin.events))-first+1), r.IntN(3) > 0)
	}
	for id := exchange.OrderID(1); id <= newest; id++ {
		o, _ := s.twin.replay(id, uint64(len(s.twin.events)), false)
		kinds[o.State]++
	}
	require.Len(t, kinds, 4)
	require.Len(t, s.twin.asked, 3, "the history is asked for each kind of moment")
}

var owners = []exchange.AccountID{"1", "2", "3"}

// draw returns a random command: a new order, or one for a recent order.
func draw(r *rand.Rand, recent *exchange.OrderWithFills, n int) exchange.Command {
	c := exchange.Command{Account: owners[r.IntN(len(owners))], Symbol: "A", Kind: exchange.PlaceOrder,
		Shares: exchange.Shares(1+r.IntN(9)) * unit}
	c.Side, c.Limit = exchange.Side(1+r.IntN(2)), exchange.Price(95+r.IntN(11))*unit
	c.STP, c.TIF = exchange.SelfTrade(r.IntN(4)), exchange.TimeInForce(r.IntN(2))
	ref := exchange.Ref("r" + string(rune('a'+n%26)) + string(rune('a'+n/26%26)))
	if r.IntN(2) == 0 {
		c.Ref = ref
	}
	switch r.IntN(6) {
	case 0:
		return exchange.Command{Kind: exchange.CancelOrder, Account: recent.Account, Order: recent.ID}
	case 1, 2:
		more := &exchange.CommandMore{}
		if r.IntN(2) == 0 {
			more.NewRef = ref
		}
		amend := exchange.Command{Kind: exchange.AmendOrder, Account: recent.Account, Order: recent.ID, Shares: c.Shares,
			More: more}
		if amend.Side = recent.Side; r.IntN(2) == 0 {
			amend.Limit = c.Limit
		}
		return amend
	case 3:
		if r.IntN(5) == 0 {
			return exchange.Command{Kind: exchange.CancelAll, Account: c.Account}
		}
	}
	return c
}

// TestAFurtherPartIsAnOwnRecord: an order that meets very many others has several records. Its last part fills nothing,
// since self-trade prevention cancels the rest at once.
func TestAFurtherPartIsAnOwnRecord(t *testing.T) {
	s := newStage(t)
	terms := func(side exchange.Side, stp exchange.SelfTrade) exchange.Terms {
		return exchange.Terms{Side: side, Limit: unit, STP: stp}
	}
	cash, shares := exchange.Notional(unit, 1000*unit), exchange.Shares(100*unit).Position()
	fill := exchange.Fill{Resting: 1, Account: "2", Shares: unit, Price: unit}
	order := exchange.Event{Order: 3, Account: "1", Symbol: "A", Terms: terms(exchange.Buy, exchange.CancelNewest)}
	first, second, third := order, order, order
	first.Kind, first.Shares, first.Fills = exchange.OrderAccepted, 5*unit, []exchange.Fill{fill}
	second.Kind, second.Before, second.Shares, second.Fills = exchange.OrderContinued, 1, 4*unit, []exchange.Fill{fill}
	third.Kind, third.Before, third.Shares, third.Rest = exchange.OrderContinued, 2, 3*unit, 3*unit
	for _, e := range []exchange.Event{
		{Kind: exchange.SymbolMade, Symbol: "A"},
		{Kind: exchange.AccountOpened, Account: "1", Balance: cash}, {Kind: exchange.AccountOpened, Account: "2"},
		{Kind: exchange.SharesDeposited, Account: "1", Symbol: "A", Deposited: shares},
		{Kind: exchange.SharesDeposited, Account: "2", Symbol: "A", Deposited: shares},
		{Kind: exchange.OrderAccepted, Order: 1, Account: "2", Symbol: "A", Terms: terms(exchange.Sell, 0), Shares: 2 * unit},
		{Kind: exchange.OrderAccepted, Order: 2, Account: "1", Symbol: "A", Terms: terms(exchange.Sell, 0), Shares: 2 * unit},
		first, second, third,
		{Kind: exchange.OrderCanceled, Order: 2, Account: "1", Symbol: "A", Terms: terms(exchange.Sell, 0), Shares: 2 * unit},
	} {
		e.Time = int64(len(s.twin.events) + 1)
		s.write(&e)
		if len(s.twin.events) == 3 {
			s.view.Watch("1")
		}
	}
	for seq := uint64(8); seq <= 11; seq++ {
		s.same(3, "1", seq, true)
	}
	o, err := s.orders.First(t.Context(), Query{Account: "1", Order: 3, Seq: 11, Fills: true})
	require.NoError(t, err)
	require.Equal(t, exchange.CanceledSTP, o.Why)
	require.Len(t, o.Fills, 2)
	require.Empty(t, s.twin.asked, "the events have everything")
	s.same(1, "2", 11, true)
	require.NotEmpty(t, s.twin.asked, "account 2 is not watched")
}

// TestAnOrderIsPutTogetherFromItsEvents: the result is the order after its own records, and none if events are missing.
func TestAnOrderIsPutTogetherFromItsEvents(t *testing.T) {
	at := func(executed exchange.Shares, isNew, maker bool) *exchange.AccountEvent {
		d := exchange.OrderDetail{ID: 5, Executed: executed, Open: 9*unit - executed}
		return &exchange.AccountEvent{Orders: []exchange.OrderChange{{OrderDetail: d, New: isNew, Own: !maker}},
			Fills: []exchange.AccountFill{{Order: 5, Shares: unit, Maker: maker}, {Order: 6, Shares: unit}}}
	}
	events := []*exchange.AccountEvent{at(unit, true, false), at(2*unit, false, false), at(3*unit, false, true)}
	q := &Query{Order: 5, Fills: true}
	whole, ok := replay(events, q)
	require.True(t, ok)
	require.Len(t, whole.Fills, 3)
	require.Equal(t, exchange.Shares(3*unit), whole.Executed)
	first, ok := replay(own(events, 5), q)
	require.True(t, ok)
	require.Len(t, first.Fills, 2, "a further part is its own, what others took later is not")
	_, ok = replay(events[1:], q)
	require.False(t, ok, "the first is not kept any more")
	_, ok = replay(events[1:], &Query{Order: 5})
	require.True(t, ok, "the fills are not needed")
	require.Empty(t, own(events[2:], 5))
	_, ok = replay(nil, q)
	require.False(t, ok)
}

// TestErrorsSayWhoDoesNotAnswer asks for unknown orders and orders of other accounts, also while the view or the
// history does not answer.
func TestErrorsSayWhoDoesNotAnswer(t *testing.T) {
	s := newStage(t)
	for _, e := range []exchange.Event{{Kind: exchange.SymbolMade, Symbol: "A"},
		{Kind: exchange.AccountOpened, Account: "1"},
		{Kind: exchange.AccountOpened, Account: "2"},
		{Kind: exchange.SharesDeposited, Account: "2", Symbol: "A", Deposited: exchange.Shares(unit).Position()},
		{Kind: exchange.OrderAccepted, Order: 1, Account: "2", Symbol: "A", Shares: unit, Ref: "r",
			Terms: exchange.Terms{Side: exchange.Sell, Limit: unit}}} {
		s.write(&e)
	}
	ask := func(ctx context.Context, q Query, want error) {
		t.Helper()
		_, err := s.orders.First(ctx, q)
		require.ErrorIs(t, err, want)
		_, err = s.orders.At(ctx, q)
		require.ErrorIs(t, err, want)
		_, _, err = s.orders.Now(ctx, q)
		require.ErrorIs(t, err, want)
	}
	ask(t.Context(), Query{Account: "1", Order: 1, Seq: 5}, ErrForeign)
	ask(t.Context(), Query{Account: "1", Order: 2, Seq: 5}, ErrUnknown)
	ask(t.Context(), Query{Account: "9", Order: 1, Seq: 5}, ErrView)
	id, err := s.orders.OfRef(t.Context(), Query{Account: "2", Seq: 5}, "r")
	require.NoError(t, err)
	require.Equal(t, exchange.OrderID(1), id)
	o, err := s.orders.AtRef(t.Context(), Query{Account: "2", Order: 1, Seq: 5}, "r")
	require.NoError(t, err)
	require.Equal(t, exchange.Ref("r"), o.Ref)
	_, err = s.orders.OfRef(t.Context(), Query{Account: "1", Seq: 5}, "r")
	require.ErrorIs(t, err, ErrUnknown)
	s.twin.away = errors.New("gone")
	ask(t.Context(), Query{Account: "1", Order: 1, Seq: 5}, ErrHistory)
	_, err = s.orders.AtRef(t.Context(), Query{Account: "2", Order: 1, Seq: 5}, "r")
	require.ErrorIs(t, err, ErrHistory)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ask(ended, Query{Account: "1", Order: 1, Seq: 6}, context.Canceled)
}

// TestLaterFillsOfTheHistoryDoNotCount: the history may have executions that the view has not applied yet.
func TestLaterFillsOfTheHistoryDoNotCount(t *testing.T) {
	o := exchange.OrderWithFills{Fills: []exchange.AccountFill{{N: 1, Shares: 1}, {N: 2, Shares: 1}, {N: 3, Shares: 3}}}
	o.Executed = 9 // the oldest fills are missing
	for executed, want := range map[exchange.Shares]int{9: 3, 6: 2, 5: 1, 4: 0, 1: 0} {
		require.Len(t, before(&o, executed), want)
	}
}
