package market

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/markettest"
	"outcry/internal/testing/trailtest"
)

// bookTwin keeps a symbol's book and its last trade from changes alone, and compares them with the feed's after
// each.
type bookTwin struct {
	t         *testing.T
	sym       exchange.Symbol
	seq       uint64 // seq of the newest change of the book
	heard     uint64 // seq of the newest change
	last      uint64 // number of the newest trade
	bids      map[exchange.Price]exchange.Position
	asks      map[exchange.Price]exchange.Position
	changes   int
	unflushed bool
	ended     error
}

func newBookTwin(t *testing.T, sym exchange.Symbol) *bookTwin {
	return &bookTwin{t: t, sym: sym}
}

// begin loads the present market.
func (w *bookTwin) begin(m *Market) {
	w.seq, w.heard, w.last = m.BookSeq(), m.Seq(), m.LastTrade()
	w.bids, w.asks = make(map[exchange.Price]exchange.Position), make(map[exchange.Price]exchange.Position)
	for p, n := range m.Bids() {
		w.bids[p] = n
	}
	for p, n := range m.Asks() {
		w.asks[p] = n
	}
	w.same(m)
}

func (w *bookTwin) Change(c *Change) {
	require.Equal(w.t, w.sym, c.Symbol)
	require.Greater(w.t, c.Seq, w.heard)
	require.Equal(w.t, c.Seq, c.Market.Seq())
	require.NotZero(w.t, len(c.Bids)+len(c.Asks)+len(c.Trades))
	require.Equal(w.t, w.seq, c.Prev, "the chain")
	if w.heard = c.Seq; len(c.Bids)+len(c.Asks) > 0 {
		w.seq = c.Seq
	}
	w.apply(c.Bids, w.bids, -1)
	w.apply(c.Asks, w.asks, 1)
	if len(c.Trades) > 0 {
		require.Equal(w.t, w.last+1, c.FirstTrade)
		for i := range c.Trades {
			require.Equal(w.t, c.Market.Trade(c.FirstTrade+uint64(i)), c.Trades[i])
		}
		w.last += uint64(len(c.Trades))
	} else {
		require.Zero(w.t, c.FirstTrade)
	}
	w.same(c.Market)
	w.changes++
	w.unflushed = true
}

// apply applies new totals, which are sorted best first. up is 1 if a higher price is worse, else -1.
func (w *bookTwin) apply(levels []Level, side map[exchange.Price]exchange.Position, up int64) {
	for i, l := range levels {
		require.True(w.t, i == 0 || up*int64(levels[i-1].Price) < up*int64(l.Price), "best first, each once: %v", levels)
		require.NotEqual(w.t, side[l.Price], l.Shares, "a level that did not change")
		if side[l.Price] = l.Shares; l.Shares.Sign() == 0 {
			delete(side, l.Price)
		}
	}
}

func (w *bookTwin) Flush(*Market) {
	require.True(w.t, w.unflushed)
	w.unflushed = false
}

func (w *bookTwin) End(err error) {
	require.NoError(w.t, w.ended)
	w.ended = err
}

// sorted returns the levels of a side, best first.
func (w *bookTwin) sorted(side map[exchange.Price]exchange.Position, up int64) (all []Level) {
	for p, n := range side {
		all = append(all, Level{p, n})
	}
	slices.SortFunc(all, func(a, b Level) int { return int(up) * int(a.Price-b.Price) })
	return all
}

// same compares the twin with a market.
func (w *bookTwin) same(m *Market) {
	require.Equal(w.t, w.sym, m.Symbol())
	require.Equal(w.t, w.seq, m.BookSeq())
	require.Equal(w.t, w.last, m.LastTrade())
	bids, asks := w.sorted(w.bids, -1), w.sorted(w.asks, 1)
	got := [2][]Level{}
	for p, n := range m.Bids() {
		got[0] = append(got[0], Level{p, n})
	}
	for p, n := range m.Asks() {
		got[1] = append(got[1], Level{p, n})
	}
	require.Equal(w.t, [2][]Level{bids, asks}, got)
	for i, side := range []exchange.Side{exchange.Buy, exchange.Sell} {
		best, ok := m.Best(side)
		require.Equal(w.t, len(got[i]) > 0, ok)
		require.True(w.t, !ok || best == got[i][0])
	}
	text := ""
	for _, l := range append(slices.Clone(asks[:min(10, len(asks))]), bids[:min(10, len(bids))]...) {
		text += fmt.Sprintf("%s:%s;", l.Price, l.Shares)
	}
	require.Equal(w.t, crc32.ChecksumIEEE([]byte(text)), m.Checksum())
	require.Equal(w.t, m.Checksum(), BookChecksum(asks, bids))
}

// TestABookFromChangesIsTheFeedsAtEachRecord: listeners come and go while orders of all kinds trade at random. A
// listener gets a Change exactly if a record has changed the total of a level or made a trade. The BookSeq of a
// symbol is the same with and without listeners.
func TestABookFromChangesIsTheFeedsAtEachRecord(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	told, silent := 0, 0
	for _, spread := range []int{8, 100} {
		m := markettest.NewRandomMarket(seed, spread)
		for range 3 {
			m.MakeSymbol()
		}
		source, alone := &listed{}, &listed{}
		f, unheard := feedOf(source, &Snapshot{}), feedOf(alone, &Snapshot{})
		twins, leaves := map[*bookTwin]*markettest.TradedSymbol{}, map[*bookTwin]func(){}
		for range 1200 {
			if r.IntN(100) == 0 {
				s := m.Symbols[r.IntN(len(m.Symbols))]
				w := newBookTwin(t, s.Name)
				leave, err := f.Listen(s.Name, w, w.begin)
				if f.Seq() == 0 {
					require.ErrorIs(t, err, ErrUnknownSymbol)
					continue
				}
				require.NoError(t, err)
				twins[w], leaves[w] = s, leave
			}
			type state struct {
				bids, asks [][2]string
				trades     uint64
			}
			of := func(s *markettest.TradedSymbol) state {
				return state{s.LevelsOf(exchange.Buy), s.LevelsOf(exchange.Sell), s.Traded.Trades}
			}
			before, changes := map[*bookTwin]state{}, map[*bookTwin]int{}
			for w, s := range twins {
				before[w], changes[w] = of(s), w.changes
			}
			for len(m.Records) == 0 {
				m.Trade()
			}
			records := m.Take()
			source.records, alone.records = records, records
			require.NoError(t, f.step(background))
			require.NoError(t, unheard.step(background))
			for w, s := range twins {
				require.False(t, w.unflushed)
				if now := of(s); len(records) == 1 && reflect.DeepEqual(now, before[w]) {
					require.Equal(t, changes[w], w.changes, "of nothing")
					silent++
				} else if len(records) == 1 {
					require.Equal(t, changes[w]+1, w.changes)
					require.Equal(t, m.Seq, w.heard)
					told++
				}
				require.NoError(t, f.View(s.Name, w.same))
				if r.IntN(300) == 0 {
					leaves[w]()
					leaves[w]() // leave may be called more than once
					delete(twins, w)
				}
			}
			for name, s := range f.symbols {
				require.Equal(t, s.bookSeq, unheard.symbols[name].bookSeq)
			}
		}
		for w := range twins {
			leaves[w]()
		}
		require.Empty(t, f.heard)
		require.False(t, f.listened())
	}
	require.Greater(t, told, 100)
	require.Greater(t, silent, 100)
}

// TestAReplacementThatMovesNothingIsNoChange: if a replacement leaves the total of its level, the book is
// unchanged.
func TestAReplacementThatMovesNothingIsNoChange(t *testing.T) {
	replaced := func(id, old exchange.OrderID, limit exchange.Price) []byte {
		terms := exchange.Terms{Side: exchange.Sell, Limit: 7}
		was := exchange.Order{ID: old, Account: &exchange.Account{ID: "1"}, Shares: 5, Open: 5, Terms: terms}
		e := exchange.Event{Kind: exchange.OrderReplaced, Order: id, Terms: terms, Shares: 5}
		e.Limit = limit
		e.Amend = was.Amendment(exchange.OrderReplaced, 5, limit, 0)
		return event(e)
	}
	for _, listens := range []bool{true, false} {
		source := &listed{records: [][]byte{made}}
		f := feedOf(source, &Snapshot{})
		require.NoError(t, f.step(background))
		w := newBookTwin(t, "S")
		if listens {
			_, err := f.Listen("S", w, w.begin)
			require.NoError(t, err)
		}
		for i, want := range []uint64{2, 2, 4} {
			source.records = [][]byte{[][]byte{placed(1, exchange.Sell, 5, 7), replaced(2, 1, 7),
				replaced(3, 2, 8)}[i]}
			require.NoError(t, f.step(background))
			require.Equal(t, want, f.symbols["S"].bookSeq)
		}
		require.True(t, !listens || w.changes == 2)
	}
}

// TestOneRecordOfManyCancelsIsOneChange: a record that cancels several orders of a symbol makes one Change.
func TestOneRecordOfManyCancelsIsOneChange(t *testing.T) {
	source := &listed{records: [][]byte{made, placed(1, exchange.Sell, 5, 7), placed(2, exchange.Sell, 5, 8),
		placed(3, exchange.Sell, 1, 8)}}
	f := feedOf(source, &Snapshot{})
	require.NoError(t, f.step(background))
	w := newBookTwin(t, "S")
	_, err := f.Listen("S", w, w.begin)
	require.NoError(t, err)
	of := func(id exchange.OrderID, limit exchange.Price) exchange.Cancel {
		return exchange.Cancel{Order: id, Symbol: "S", Terms: exchange.Terms{Side: exchange.Sell, Limit: limit}, Shares: 5}
	}
	source.records = [][]byte{canceledAll(of(1, 7), of(2, 8))}
	require.NoError(t, f.step(background))
	require.Equal(t, 1, w.changes)
	require.Equal(t, uint64(5), w.seq)
	require.Len(t, w.asks, 1)
}

// TestListenersHearOfTheEnd: End is called once, with the reason, and later calls of Listen fail.
func TestListenersHearOfTheEnd(t *testing.T) {
	source := &listed{records: [][]byte{made}}
	f := NewFeed(Options{Records: trailtest.Follow(source, 0, nil), Log: slog.New(slog.DiscardHandler)}, &Snapshot{})
	require.NoError(t, f.step(background))
	stays, left := newBookTwin(t, "S"), newBookTwin(t, "S")
	leaveLater, err := f.Listen("S", stays, stays.begin)
	require.NoError(t, err)
	leave, err := f.Listen("S", left, left.begin)
	require.NoError(t, err)
	leave()
	source.err = errors.New("the disk is gone")
	f.Run(background)
	require.ErrorIs(t, stays.ended, ErrEnded)
	require.ErrorContains(t, stays.ended, "the disk is gone")
	require.NoError(t, left.ended)
	leaveLater() // the end has already removed the listener
	_, err = f.Listen("S", left, left.begin)
	require.ErrorContains(t, err, "the disk is gone")
	require.ErrorContains(t, f.View("S", stays.begin), "the disk is gone")
	require.ErrorContains(t, f.Each("", func(*Market) bool { return true }), "the disk is gone")
	err = f.Await(background, 2)
	require.ErrorIs(t, err, ErrEnded)
	require.ErrorContains(t, err, "the disk is gone")
	require.NoError(t, f.Await(background, 1))
}

// endPanics is a listener that panics at the feed's end.
type endPanics struct{ *bookTwin }

func (e endPanics) End(err error) {
	e.bookTwin.End(err)
	panic("a bug")
}

// TestAListenerThatPanicsAtTheEndEndsAlone: the others are ended nevertheless, and Run returns.
func TestAListenerThatPanicsAtTheEndEndsAlone(t *testing.T) {
	var log bytes.Buffer
	source := &listed{records: [][]byte{made}}
	f := NewFeed(Options{Records: trailtest.Follow(source, 0, nil), Log: slog.New(slog.NewTextHandler(&log, nil))},
		&Snapshot{})
	require.NoError(t, f.step(background))
	var all []*bookTwin
	for range 3 {
		w := newBookTwin(t, "S")
		_, err := f.Listen("S", endPanics{w}, w.begin)
		require.NoError(t, err)
		all = append(all, w)
	}
	source.err = errors.New("the disk is gone")
	f.Run(background)
	for _, w := range all {
		require.ErrorContains(t, w.ended, "the disk is gone")
	}
	require.Equal(t, len(all), strings.Count(log.String(), "panic: a bug"))
	require.ErrorContains(t, f.Err(), "the disk is gone")
	require.Empty(t, f.heard)
	<-f.Ended()
}

// changePanics is a listener that panics at the first change.
type changePanics struct{ *bookTwin }

func (changePanics) Change(*Change) { panic("a bug") }

// TestAPanicEndsTheFeed: listeners and waiting callers get the panic as the reason, and the feed holds no lock.
func TestAPanicEndsTheFeed(t *testing.T) {
	var log bytes.Buffer
	placed := exchange.AppendEvent(nil, &exchange.Event{Kind: exchange.OrderAccepted, Account: "1", Symbol: "S", Order: 1,
		Shares: 5, Terms: exchange.Terms{Side: exchange.Buy, Limit: 2}})
	source := &listed{records: [][]byte{made}}
	f := NewFeed(Options{Records: trailtest.Follow(source, 0, nil), Log: slog.New(slog.NewTextHandler(&log, nil))},
		&Snapshot{})
	require.NoError(t, f.step(background))
	panics, other := newBookTwin(t, "S"), newBookTwin(t, "S")
	_, err := f.Listen("S", changePanics{panics}, panics.begin)
	require.NoError(t, err)
	_, err = f.Listen("S", other, other.begin)
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() { waits <- f.Await(background, 3) }()
	require.Eventually(t, f.records.Waited, time.Minute, time.Millisecond)
	source.records = append(source.records, placed)
	f.Run(background)
	for _, err := range []error{panics.ended, other.ended, <-waits, f.Err()} {
		require.ErrorContains(t, err, "panic: a bug")
	}
	require.Contains(t, log.String(), "changePanics", "the log has the stack")
	require.True(t, f.mu.TryLock())
}

// TestNobodyListensAfterTheEnd: if ctx ends Run, listeners get ErrEnded, and later calls of Listen return it.
func TestNobodyListensAfterTheEnd(t *testing.T) {
	f := feedOf(&listed{records: [][]byte{made}}, &Snapshot{})
	require.NoError(t, f.step(background))
	w := newBookTwin(t, "S")
	_, err := f.Listen("S", w, w.begin)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(background)
	cancel()
	f.Run(ctx)
	require.Equal(t, ErrEnded, w.ended)
	_, err = f.Listen("S", newBookTwin(t, "S"), func(*Market) { t.Error("begun") })
	require.Equal(t, ErrEnded, err)
}

// TestNobodyListensBeforeTheFeedHasCaughtUp: Listen and View fail until then, because the market data is old.
func TestNobodyListensBeforeTheFeedHasCaughtUp(t *testing.T) {
	records := trailtest.Follow(&listed{records: [][]byte{made}}, 0, nil)
	f := NewFeed(Options{Records: records, CatchUp: 2}, &Snapshot{})
	require.NoError(t, f.step(background))
	w := newBookTwin(t, "S")
	_, err := f.Listen("S", w, w.begin)
	require.ErrorContains(t, err, "not up to date yet")
	require.ErrorContains(t, f.View("S", w.begin), "not up to date yet")
	require.Nil(t, w.bids)
	require.Empty(t, f.heard)
}

// TestEachHasTheSymbolsByName: Each passes the symbols by name, from the first after a name, until read returns
// false.
func TestEachHasTheSymbolsByName(t *testing.T) {
	m := markettest.NewRandomMarket(1, 5)
	for range 5 {
		m.MakeSymbol()
	}
	f := feedOf(&listed{records: m.Take()}, &Snapshot{})
	require.NoError(t, f.step(background))
	names := func(after exchange.Symbol, most int) (all []exchange.Symbol) {
		require.NoError(t, f.Each(after, func(m *Market) bool {
			all = append(all, m.Symbol())
			return len(all) < most
		}))
		return all
	}
	var want []exchange.Symbol
	for _, s := range m.Symbols {
		want = append(want, s.Name)
	}
	slices.Sort(want)
	require.Equal(t, want, names("", 10))
	require.Equal(t, want[2:4], names(want[1], 2))
	require.Empty(t, names(want[4], 10))
	require.ErrorIs(t, f.View("NONE", func(*Market) {}), ErrUnknownSymbol)
}

// TestChecksumsAreTheDocumentedOnes compares checksums with fixed values, one of which the tests of the clients use
// as well.
func TestChecksumsAreTheDocumentedOnes(t *testing.T) {
	level := func(price, shares string) Level {
		p, err := exchange.ParseLimit(price)
		require.NoError(t, err)
		_, n, err := exchange.ParseAmount(shares)
		require.NoError(t, err)
		return Level{p, n.Position()}
	}
	require.EqualValues(t, 682763730, BookChecksum([]Level{level("101", "5"), level("101.5", "0.25")},
		[]Level{level("5", "1")}))
	require.EqualValues(t, 354975320, BookChecksum([]Level{level("100", "5")}, nil))
	require.Zero(t, BookChecksum(nil, nil))
}
