package market

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/testing/markettest"
	"outcry/internal/testing/trailtest"
)

var background = context.Background()

// listed is a journal whose records a test provides as a slice.
type listed struct {
	records [][]byte
	seq     uint64 // number of the record before records
	closed  bool
	err     error // returned when no record is left
}

func (l *listed) TryNext() (uint64, []byte, bool, error) {
	if len(l.records) == 0 {
		return 0, nil, false, l.err
	}
	record := l.records[0]
	l.records = l.records[1:]
	l.seq++
	return l.seq, record, true, nil
}

func (l *listed) Close() { l.closed = true }

// Records of the symbol S.
var (
	canceled    = markettest.Canceled
	canceledAll = markettest.CanceledAll
	event       = markettest.Event
	made        = markettest.Made
	placed      = markettest.Placed
)

func feedOf(r trail.Records, snap *Snapshot) *Feed {
	records := trailtest.Follow(r, snap.Seq, nil)
	return NewFeed(Options{Records: records, Log: slog.New(slog.DiscardHandler)}, snap)
}

// step applies all records that may be published now.
func (f *Feed) step(ctx context.Context) error { return f.records.Step(ctx, f.loop()) }

// snapshotOf returns the snapshot that a database would have of the market now, with up to trades trades of each
// symbol.
func snapshotOf(m *markettest.RandomMarket, trades int) *Snapshot {
	snap := &Snapshot{Seq: m.Seq}
	for _, s := range m.Symbols {
		snap.Symbols = append(snap.Symbols, exchange.SymbolState{Symbol: s.Name, Halt: s.Book.Halted(),
			Rules: s.Rules})
		for o := range s.Book.Orders() {
			if o.Open > 0 {
				snap.Orders = append(snap.Orders, exchange.OrderState{ID: o.ID, Symbol: s.Name,
					Terms:  o.Terms,
					Shares: o.Shares, Open: o.Open})
			}
		}
		if s.Traded.Trades > 0 {
			snap.Traded = append(snap.Traded, exchange.TradedState{Symbol: s.Name, Traded: s.Traded})
		}
		for _, t := range s.Trades[len(s.Trades)-min(trades, len(s.Trades)):] {
			snap.Trades = append(snap.Trades, exchange.TradeState{Symbol: s.Name, Trade: t})
		}
	}
	return snap
}

// requireMarket demands that a feed has the state of a market. before is how many of the oldest trades of each
// symbol the feed lacks; it must have all others.
func requireMarket(t *testing.T, f *Feed, m *markettest.RandomMarket, before map[exchange.Symbol]uint64) {
	t.Helper()
	require.Equal(t, m.Seq, f.Seq())
	require.NoError(t, f.Err())
	require.Len(t, f.symbols, len(m.Symbols))
	for _, want := range m.Symbols {
		s := f.symbols[want.Name]
		require.Equal(t, want.LevelsOf(exchange.Buy), textsOf(&s.bids), want.Name)
		require.Equal(t, want.LevelsOf(exchange.Sell), textsOf(&s.asks), want.Name)
		require.Equal(t, want.Book.Halted(), s.halt, want.Name)
		require.Equal(t, want.Traded, s.traded, want.Name)
		require.Equal(t, want.Rules, s.rules, want.Name)
		require.Equal(t, want.Traded.Trades, s.tape.last, want.Name)
		require.Equal(t, before[want.Name]+1, s.tape.first, want.Name)
		for n := s.tape.first; n <= s.tape.last; n++ {
			require.Equal(t, want.Trades[n-1], *s.tape.at(n), "%s, trade %d", want.Name, n)
		}
	}
}

// textsOf returns the levels of a side as texts, best first.
func textsOf(l *levels) [][2]string {
	all := [][2]string{}
	for price, shares := range l.all() {
		all = append(all, [2]string{price.String(), shares.String()})
	}
	return all
}

// TestTheFeedAgreesWithTheBooks trades at random, and sometimes restarts the feed from the snapshot that a database
// would have some records earlier.
func TestTheFeedAgreesWithTheBooks(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for _, spread := range []int{8, 100, 3000} {
		m := markettest.NewRandomMarket(seed, spread)
		source := &listed{}
		f, before := feedOf(source, &Snapshot{}), map[exchange.Symbol]uint64{}
		for range 30 {
			if len(m.Symbols) == 0 || r.IntN(5) == 0 {
				m.MakeSymbol()
			}
			for range r.IntN(400) {
				m.Trade()
			}
			source.records = append(source.records, m.Take()...)
			if r.IntN(4) == 0 {
				kept := r.IntN(200)
				source = &listed{seq: m.Seq}
				f, before = feedOf(source, snapshotOf(m, kept)), map[exchange.Symbol]uint64{}
				for _, s := range m.Symbols {
					before[s.Name] = uint64(len(s.Trades) - min(kept, len(s.Trades)))
				}
				for range r.IntN(100) { // trades that the database does not have yet
					m.Trade()
				}
				source.records = m.Take()
			}
			require.NoError(t, f.step(background))
			requireMarket(t, f, m, before)
		}
	}
}

func TestTapesKeepTheNewestTradesInBoundedMemory(t *testing.T) {
	var slots int
	quiet, busy := tape{first: 1}, tape{first: 1}
	for n := uint64(1); n <= 3*ringMax; n++ {
		busy.add(exchange.Trade{Time: int64(n)}, &slots)
		if n <= 3 {
			quiet.add(exchange.Trade{Time: int64(n)}, &slots)
		}
	}
	require.Equal(t, ringMax+ringMin, slots)
	require.Equal(t, uint64(3*ringMax), busy.last)
	require.Equal(t, uint64(2*ringMax+1), busy.first)
	for n := busy.first; n <= busy.last; n++ {
		require.Equal(t, int64(n), busy.at(n).Time)
	}
	require.Equal(t, []uint64{1, 3}, []uint64{quiet.first, quiet.last})

	slots = slotsMax
	late := tape{first: 1}
	for n := range 100 {
		late.add(exchange.Trade{Time: int64(n + 1)}, &slots)
	}
	require.Len(t, late.ring, ringMin, "all the same")
	require.Equal(t, []uint64{85, 100}, []uint64{late.first, late.last})
	require.Equal(t, int64(85), late.at(85).Time)
}

// TestWhatCannotBeEndsMarketData plays journals that no exchange writes: the feed ends with an error, and closes
// its reader of the journal.
func TestWhatCannotBeEndsMarketData(t *testing.T) {
	for _, c := range []struct {
		why     string
		records [][]byte
		want    string
	}{
		{"a fill of more than is open", [][]byte{made, placed(1, exchange.Sell, 5, 7),
			placed(2, exchange.Buy, 6, 7, exchange.Fill{Resting: 1, Account: "1", Shares: 6, Price: 7})},
			"journal record 3: market: order 2 takes 0.00000006 of S at 0.00000007, which is more than is open there"},
		{"a fill at a price that nobody asked",
			[][]byte{made, placed(1, exchange.Sell, 5, 7),
				placed(2, exchange.Buy, 5, 8, exchange.Fill{Resting: 1, Account: "1", Shares: 5, Price: 8})}, "more than is open"},
		{"a fill of the own side", [][]byte{made, placed(1, exchange.Buy, 5, 7),
			placed(2, exchange.Buy, 5, 7, exchange.Fill{Resting: 1, Account: "1", Shares: 5, Price: 7})}, "more than is open"},
		{"a cancel of more than is open", [][]byte{made, placed(1, exchange.Sell, 5, 7), canceled(1, exchange.Sell, 6, 7)},
			"0.00000006 of order 1 for S at 0.00000007 are canceled, which is more"},
		{"a cancel of nothing", [][]byte{made, canceled(1, exchange.Sell, 6, 7)}, "are canceled, which is more"},
		{"a cancel of many, one of them of nothing", [][]byte{made, placed(1, exchange.Sell, 5, 7), canceledAll(
			exchange.Cancel{Order: 1, Symbol: "S", Terms: exchange.Terms{Side: exchange.Sell, Limit: 7}, Shares: 5},
			exchange.Cancel{Order: 2, Symbol: "S", Terms: exchange.Terms{Side: exchange.Sell, Limit: 7}, Shares: 5})},
			"journal record 3: market: 0.00000005 of order 2 for S at 0.00000007 are canceled, which is more"},
		{"a cancel of many of an unknown symbol",
			[][]byte{made, canceledAll(exchange.Cancel{Order: 1, Symbol: "T", Terms: exchange.Terms{Side: exchange.Sell,
				Limit: 7}, Shares: 5})},
			"market: journal record 2: it is for symbol T, which was never created"},
		{"a halt of an unknown symbol", [][]byte{event(exchange.Event{Kind: exchange.SymbolHalted})},
			"market: journal record 1: it is for symbol S, which was never created"},
		{"an order while another is unfinished",
			[][]byte{made, placed(1, exchange.Sell, 5, 7), placed(2, exchange.Buy, 5, 7), placed(3, exchange.Buy, 5, 6)},
			"of order 3 for S, while order 2 is unfinished"},
		{"a part of an order that is finished", [][]byte{made, placed(1, exchange.Sell, 5, 7),
			event(exchange.Event{Kind: exchange.OrderContinued, Order: 2, Terms: exchange.Terms{Side: exchange.Buy,
				Limit: 7}, Shares: 5, Before: 1,
				Fills: []exchange.Fill{{Resting: 1, Account: "1", Shares: 5, Price: 7}}})},
			"order 2 for S continues, but is not unfinished"},
		{"an unknown symbol", [][]byte{placed(1, exchange.Sell, 5, 7)},
			"market: journal record 1: it is for symbol S, which was never created"},
		{"a symbol made twice", [][]byte{made, made}, "market: journal record 2: symbol S is created twice"},
		{"no event", [][]byte{made, []byte("x")}, "market: journal record 2: exchange: not an event"},
	} {
		t.Run(c.why, func(t *testing.T) {
			var log bytes.Buffer
			source := &listed{records: c.records}
			f := NewFeed(Options{Records: trailtest.Follow(source, 0, nil), Log: slog.New(slog.NewTextHandler(&log, nil))},
				&Snapshot{})
			f.Run(background)
			require.ErrorContains(t, f.Err(), c.want)
			require.True(t, source.closed)
			require.Contains(t, log.String(), "market data are unavailable")
		})
	}
	gone := feedOf(&listed{err: errors.New("the record is no longer there")}, &Snapshot{})
	gone.Run(background)
	require.ErrorContains(t, gone.Err(), "no longer there")
	skipped := feedOf(&listed{seq: 1, records: [][]byte{made}}, &Snapshot{})
	skipped.Run(background)
	require.ErrorContains(t, skipped.Err(), "market: journal record 2 follows record 0")
}

func TestASnapshotThatDoesNotFitTogetherIsNoMarketData(t *testing.T) {
	m := markettest.NewRandomMarket(1, 10)
	m.MakeSymbol()
	for len(m.Symbols[0].Trades) < 5 {
		m.Trade()
	}
	for want, harm := range map[string]func(*Snapshot){
		"is for X, which was never created": func(s *Snapshot) { s.Orders[0].Symbol = "X" },
		"has 0 open":                        func(s *Snapshot) { s.Orders[0].Open = 0 },
		"trades of X":                       func(s *Snapshot) { s.Traded[0].Symbol = "X" },
		"of which there are 4":              func(s *Snapshot) { s.Traded[0].Trades = 3 },
		"out of range":                      func(s *Snapshot) { s.Traded[0].Last = 0 },
		"of which none are counted":         func(s *Snapshot) { s.Traded = nil },
	} {
		snap := snapshotOf(m, 4)
		harm(snap)
		source := &listed{}
		f := feedOf(source, snap)
		require.ErrorContains(t, f.Err(), want)
		f.Run(background)
		require.True(t, source.closed, "the journal is not held")
	}
	require.NoError(t, feedOf(&listed{}, snapshotOf(m, 4)).Err())
}

// TestOnlyTheNewestOrderOfASnapshotMayBeUnfinished: no order is placed while an older one is unfinished.
func TestOnlyTheNewestOrderOfASnapshotMayBeUnfinished(t *testing.T) {
	of := func(id exchange.OrderID, side exchange.Side, limit exchange.Price) exchange.OrderState {
		return exchange.OrderState{ID: id, Symbol: "S", Terms: exchange.Terms{Side: side, Limit: limit}, Open: 5}
	}
	snap := &Snapshot{Seq: 3, Symbols: []exchange.SymbolState{{Symbol: "S"}},
		Orders: []exchange.OrderState{of(1, exchange.Sell, 7), of(2, exchange.Buy, 7)}}
	require.NoError(t, feedOf(&listed{seq: 3}, snap).Err())
	snap.Orders = append(snap.Orders, of(3, exchange.Buy, 6))
	require.ErrorContains(t, feedOf(&listed{seq: 3}, snap).Err(),
		"order 3 of S is newer than order 2, which is unfinished")
}

// TestAChunkIsBounded: a chunk ends after a number of fills, no matter how few records they are in, because requests
// wait for it.
func TestAChunkIsBounded(t *testing.T) {
	const each = 4096 / 2
	source := &listed{records: [][]byte{made, placed(1, exchange.Sell, 10*each, 7)}}
	fills := make([]exchange.Fill, each)
	for i := range fills {
		fills[i] = exchange.Fill{Resting: 1, Account: "1", Shares: 1, Price: 7}
	}
	for id := range exchange.OrderID(6) {
		source.records = append(source.records, placed(2+id, exchange.Buy, each, 7, fills...))
	}
	f := feedOf(source, &Snapshot{})
	loop, ends := f.loop(), []uint64{}
	chunk := loop.Chunk
	loop.Chunk = func() error {
		defer func() { ends = append(ends, f.Seq()) }()
		return chunk()
	}
	require.NoError(t, f.records.Step(background, loop))
	require.Equal(t, []uint64{4, 6, 8}, ends)
}

// TestNothingIsToldBeforeItIsDurable delays a sync of a journal; the feed must not apply the record before it.
func TestNothingIsToldBeforeItIsDurable(t *testing.T) {
	synced := make(chan struct{})
	j, err := journal.Open(t.TempDir(),
		journal.Options{Version: exchange.EventVersion, OnSync: func(int, int, time.Duration) { synced <- struct{}{} }})
	require.NoError(t, err)
	records, err := j.NewReader(1)
	require.NoError(t, err)
	f := feedOf(records, &Snapshot{})
	defer records.Close()
	_, err = j.Append(made)
	require.NoError(t, err)
	require.NoError(t, j.Wait(background, 1)) // the flusher then blocks in OnSync, which holds back the next sync
	_, err = j.Append(placed(1, exchange.Sell, 5, 7))
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, f.step(background))
		require.Equal(t, uint64(1), f.Seq(), "record 2 is appended and not synced")
		require.Empty(t, f.symbols["S"].asks.chunks)
	}
	<-synced
	require.NoError(t, j.Wait(background, 2))
	require.NoError(t, f.step(background))
	require.Equal(t, uint64(2), f.Seq())
	require.NotEmpty(t, f.symbols["S"].asks.chunks)
	go func() {
		for range synced {
		}
	}()
	require.NoError(t, j.Close())
}

func TestNothingIsToldBeyondTheLimit(t *testing.T) {
	var limit uint64
	source := &listed{}
	f := NewFeed(Options{Records: trail.FollowRecords(source, trailtest.Options,
		trail.FollowOptions{Limit: func() uint64 { return limit }}, nil)}, &Snapshot{})
	source.records = [][]byte{made, placed(1, exchange.Sell, 5, 7), placed(2, exchange.Sell, 5, 7)}
	for limit = range uint64(4) {
		require.NoError(t, f.step(background))
		require.Equal(t, limit, f.Seq())
	}
}

func TestNothingIsToldBeforeTheFeedHasCaughtUp(t *testing.T) {
	source := &listed{records: [][]byte{made}}
	f := NewFeed(Options{Records: trailtest.Follow(source, 0, nil), CatchUp: 2, Log: slog.New(slog.DiscardHandler)},
		&Snapshot{})
	require.NoError(t, f.step(background))
	require.ErrorContains(t, f.Err(), "market data is at record 1 of 2 and not up to date yet")
	source.records = [][]byte{placed(1, exchange.Sell, 5, 7)}
	require.NoError(t, f.step(background))
	require.NoError(t, f.Err())
}

// TestEveryKindOfRecordIsTakenIn: note applies every kind of record about symbols, and refuses all other kinds.
func TestEveryKindOfRecordIsTakenIn(t *testing.T) {
	ofSymbols := map[exchange.EventKind]bool{exchange.OrderAccepted: true, exchange.OrderCanceled: true,
		exchange.OrderContinued: true, exchange.OrderReduced: true, exchange.OrderReplaced: true,
		exchange.SymbolRuled: true, exchange.SymbolHalted: true, exchange.SymbolResumed: true}
	for n := range 256 {
		kind := exchange.EventKind(n)
		s, room := newSymbol("S", 1), new(slots)
		s.bids.add(5, exchange.Shares(1).Position())
		if kind == exchange.OrderContinued {
			s.unfinished = 1
		}
		err := s.note(&exchange.Event{Kind: kind, Order: 1, Terms: exchange.Terms{Side: exchange.Buy, Limit: 5},
			Shares: 1, SymbolRules: new(exchange.SymbolRules), Amend: &exchange.Amendment{Old: exchange.Cancel{
				Terms: exchange.Terms{Side: exchange.Buy, Limit: 5}, Shares: 1}}}, room)
		if ofSymbols[kind] {
			require.NoError(t, err, kind)
		} else {
			require.ErrorContains(t, err, "kind "+kind.String())
		}
	}
}
