package market

import (
	"fmt"
	"iter"

	"outcry/internal/exchange"
)

// Level is a price level of a book.
type Level struct {
	Price  exchange.Price
	Shares exchange.Position // that are open at the price; 0 in a Change: the level is gone
}

// Market is the market of one symbol as it stands after a record. It is valid, and does not change, during the call
// that it is an argument of; what its methods return may be kept.
type Market struct {
	s       *symbol
	seq     uint64
	checked []byte // memory for what a checksum is of
}

// Symbol returns the symbol's name.
func (m *Market) Symbol() exchange.Symbol { return m.s.name }

// Seq returns the record up to which everything is in it.
func (m *Market) Seq() uint64 { return m.seq }

// BookSeq returns the newest record that changed a level's total, or the one that the feed started after if
// none has since.
func (m *Market) BookSeq() uint64 { return m.s.bookSeq }

// Bids returns the levels of the buys, best first.
func (m *Market) Bids() iter.Seq2[exchange.Price, exchange.Position] { return m.s.bids.all() }

// Asks returns the levels of the sells, best first.
func (m *Market) Asks() iter.Seq2[exchange.Price, exchange.Position] { return m.s.asks.all() }

// Best returns the best level of a side. ok is false if the side is empty.
func (m *Market) Best(side exchange.Side) (best Level, ok bool) {
	own, _ := m.s.side(side)
	own.best(1, func(p exchange.Price, n exchange.Position) { best, ok = Level{p, n}, true })
	return best, ok
}

// Traded returns what all trades of the symbol come to.
func (m *Market) Traded() exchange.Traded { return m.s.traded }

// Rules returns the tick, the lot and the other rules of the symbol.
func (m *Market) Rules() exchange.SymbolRules { return m.s.rules }

// Halt returns the halt of the symbol, nil while it accepts orders.
func (m *Market) Halt() *exchange.Halt { return m.s.halt }

// LastTrade returns the number of the newest trade, 0 if there was none.
func (m *Market) LastTrade() uint64 { return m.s.tape.last }

// FirstTrade returns the number of the oldest trade that is in memory, one above LastTrade if none is.
func (m *Market) FirstTrade() uint64 { return m.s.tape.first }

// Trade returns the trade with a number from FirstTrade to LastTrade. It panics for any other.
func (m *Market) Trade(n uint64) exchange.Trade {
	if n < m.s.tape.first || n > m.s.tape.last {
		panic(fmt.Sprintf("market: trade %d of %s is not in memory", n, m.s.name))
	}
	return *m.s.tape.at(n)
}

// Candle returns the newest candle of an interval. It is empty, with no trades, if nothing was ever traded.
func (m *Market) Candle(i exchange.Interval) exchange.Candle { return m.s.candles.newest(i) }

// Window returns what the trades come to that lie in the candles of an hour which began at from or later, in
// nanoseconds since the Unix epoch. Those of a day before the newest trade are kept. It is empty, with no
// trades, if nothing was traded since.
func (m *Market) Window(from int64) exchange.Candle {
	return m.s.candles.since(exchange.Candle1h, from)
}

// View calls read with the market of a symbol, which changes for nobody meanwhile: read must be short, and call no
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

// Each calls read for the symbols behind after, in the order of their names, all true at the same record, until read
// returns false. What View says of read holds. The error says why there is no market data.
func (f *Feed) Each(after exchange.Symbol, read func(*Market) bool) error {
	if err := f.Err(); err != nil {
		return err
	}
	f.viewList(func(list []*symbol) {
		m := Market{seq: f.seq.Load()}
		for _, m.s = range list[firstAfter(list, after):] {
			if !read(&m) {
				return
			}
		}
	})
	return nil
}
