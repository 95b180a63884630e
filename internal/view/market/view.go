package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"

	"outcry/internal/exchange"
)

// Errors of callers. Each is wrapped with the value that it is about.
var (
	// ErrUnknownSymbol means that the symbol does not exist.
	ErrUnknownSymbol = errors.New("there is no symbol")
	// ErrEnded means that the feed has ended, so that there is no more market data.
	ErrEnded = errors.New("market data has ended, the exchange is stopping or has lost it")
	// ErrBehind means that the feed did not reach a requested record in time.
	ErrBehind = errors.New("market data is behind")
	// ErrNotStored means that candles are no longer in memory and not yet in the database.
	ErrNotStored = errors.New("older candles are not in the database yet")
)

// Level is a price level of a book.
type Level struct {
	Price  exchange.Price
	Shares exchange.Position // open shares at the price; 0 in a Change if the level is gone
}

// Market is the market of one symbol after a record. It is valid, and does not change, only during the call that
// passes it; what its methods return may be kept.
type Market struct {
	s       *symbol
	seq     uint64
	checked []byte // memory for the text that a checksum covers
}

// Symbol returns the symbol's name.
func (m *Market) Symbol() exchange.Symbol { return m.s.name }

// Seq returns the last record that the market includes.
func (m *Market) Seq() uint64 { return m.seq }

// Changed returns the last record that changed anything about the symbol.
func (m *Market) Changed() uint64 { return m.s.seq }

// BookSeq returns the last record that changed a level's total, or the record that the feed started after if none has
// changed one since.
func (m *Market) BookSeq() uint64 { return m.s.bookSeq }

// Bids returns the levels of the buy orders, best first.
func (m *Market) Bids() iter.Seq2[exchange.Price, exchange.Position] { return m.s.bids.all() }

// Asks returns the levels of the sell orders, best first.
func (m *Market) Asks() iter.Seq2[exchange.Price, exchange.Position] { return m.s.asks.all() }

// Best returns the best level of a side. ok is false if the side is empty.
func (m *Market) Best(side exchange.Side) (best Level, ok bool) {
	own, _ := m.s.side(side)
	own.best(1, func(p exchange.Price, n exchange.Position) { best, ok = Level{p, n}, true })
	return best, ok
}

// Traded returns the totals of all trades of the symbol.
func (m *Market) Traded() exchange.Traded { return m.s.traded }

// Rules returns the symbol's rules, such as tick and lot.
func (m *Market) Rules() exchange.SymbolRules { return m.s.rules }

// Halt returns the halt of the symbol, nil while it accepts orders.
func (m *Market) Halt() *exchange.Halt { return m.s.halt }

// LastTrade returns the number of the newest trade, 0 if there was none.
func (m *Market) LastTrade() uint64 { return m.s.tape.last }

// FirstTrade returns the number of the oldest trade in memory. It is LastTrade + 1 if there is none in memory.
func (m *Market) FirstTrade() uint64 { return m.s.tape.first }

// Trade returns trade n. It panics unless n is from FirstTrade to LastTrade.
func (m *Market) Trade(n uint64) exchange.Trade {
	if n < m.s.tape.first || n > m.s.tape.last {
		panic(fmt.Sprintf("market: trade %d of %s is not in memory", n, m.s.name))
	}
	return *m.s.tape.at(n)
}

// Candle returns the newest candle of an interval. It is empty, with no trades, if the symbol has never traded.
func (m *Market) Candle(i exchange.Interval) exchange.Candle { return m.s.candles.newest(i) }

// CandlesAfter returns up to most of the newest candles of an interval that include trades after trade n, oldest first.
func (m *Market) CandlesAfter(i exchange.Interval, n uint64, most int) []exchange.Candle {
	return m.s.candles.after(i, n, most)
}

// Window returns the sum of the hourly candles that began at from or later, in nanoseconds since the Unix epoch. The
// candles of the day before the newest trade are kept. The sum is empty, with no trades, if there was no trade since.
func (m *Market) Window(from int64) exchange.Candle {
	return m.s.candles.since(exchange.Candle1h, from)
}

// awaitTimeout is how long Await waits.
const awaitTimeout = 5 * time.Second

// Await waits until the feed has a record, for at most five seconds. The error wraps ErrBehind if the record does not
// arrive in that time or before ctx ends, or ErrEnded if the feed ends.
func (f *Feed) Await(ctx context.Context, seq uint64) error {
	if f.Seq() >= seq {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	err := f.records.Await(ctx, seq)
	switch last := f.Seq(); {
	case last >= seq:
		return nil
	case err != nil:
		return fmt.Errorf("%w: record %d has not arrived within %s, the last one is %d; try again",
			ErrBehind, seq, awaitTimeout, last)
	}
	return f.end()
}

// View calls read with the market of a symbol under the feed's read lock: read must be short, and must not call a
// method of f. The error wraps ErrUnknownSymbol, or says why there is no market data.
func (f *Feed) View(sym exchange.Symbol, read func(*Market)) error {
	if err := f.Err(); err != nil {
		return err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	s := f.symbols[sym]
	if s == nil {
		return fmt.Errorf("%w %q", ErrUnknownSymbol, sym)
	}
	read(&Market{s: s, seq: f.seq.Load()})
	return nil
}

// Symbols returns the number of symbols.
func (f *Feed) Symbols() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.list)
}

// Each calls read for the symbols with names after after, in the order of their names and all at the same record,
// until read returns false. read must be short, and must not call a method of f. The error says why there is no market
// data.
func (f *Feed) Each(after exchange.Symbol, read func(*Market) bool) error {
	if err := f.Err(); err != nil {
		return err
	}
	f.viewList(func(list []*symbol) { f.each(list[firstAfter(list, after):], read) })
	return nil
}

// EachByTrades is like Each for all symbols, those with the most trades first.
func (f *Feed) EachByTrades(read func(*Market) bool) error {
	if err := f.Err(); err != nil {
		return err
	}
	f.viewList(func(list []*symbol) {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b *symbol) int { return cmp.Compare(b.traded.Trades, a.traded.Trades) })
		f.each(list, read)
	})
	return nil
}

// each calls read for symbols until it returns false. Its caller holds mu.
func (f *Feed) each(list []*symbol, read func(*Market) bool) {
	m := Market{seq: f.seq.Load()}
	for _, m.s = range list {
		if !read(&m) {
			return
		}
	}
}

// firstAfter returns the index of the first symbol after a name in a sorted list.
func firstAfter(list []*symbol, name exchange.Symbol) int {
	return sort.Search(len(list), func(i int) bool { return list[i].name > name })
}
