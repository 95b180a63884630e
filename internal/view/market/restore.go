package market

import (
	"fmt"

	"outcry/internal/exchange"
)

// restore loads a snapshot.
func (f *Feed) restore(snap *Snapshot) error {
	for i := range snap.Symbols {
		s := f.add(snap.Symbols[i].Symbol, snap.Seq)
		s.halt, s.rules = snap.Symbols[i].Halt, snap.Symbols[i].Rules
	}
	for i := range snap.Orders {
		o := &snap.Orders[i]
		s := f.symbols[o.Symbol]
		if s == nil {
			return fmt.Errorf("market: order %d is for %s, which was never created", o.ID, o.Symbol)
		}
		if s.unfinished != 0 {
			return fmt.Errorf("market: order %d of %s is newer than order %d, which is unfinished", o.ID, o.Symbol, s.unfinished)
		}
		if err := s.rest(o.ID, &o.Terms, o.Open); err != nil {
			return err
		}
		s.touched = false
	}
	if err := f.restoreTraded(snap); err != nil {
		return err
	}
	return f.restoreCandles(snap.Candles)
}

// restoreTraded loads the totals and the newest trades of a snapshot.
func (f *Feed) restoreTraded(snap *Snapshot) error {
	known := make(map[exchange.Symbol]uint64) // number of trades of each symbol
	for i := range snap.Trades {
		known[snap.Trades[i].Symbol]++
	}
	for i := range snap.Traded {
		t := &snap.Traded[i]
		s := f.symbols[t.Symbol]
		if s == nil || known[t.Symbol] > t.Trades {
			return fmt.Errorf("market: %d trades of %s, of which there are %d or which was never created",
				t.Trades, t.Symbol, known[t.Symbol])
		}
		if err := t.Check(); err != nil {
			return fmt.Errorf("market: %s: %w", t.Symbol, err)
		}
		s.traded = t.Traded
		s.tape.startAfter(t.Trades - known[t.Symbol])
		delete(known, t.Symbol)
	}
	for name, n := range known {
		return fmt.Errorf("market: %d trades of %s, of which none are counted", n, name)
	}
	for i := range snap.Trades {
		t := &snap.Trades[i]
		f.symbols[t.Symbol].tape.add(t.Trade, &f.slots.trades)
	}
	return nil
}

// restoreCandles loads the candles of a snapshot. If it has none, earlier candles are only in the database.
func (f *Feed) restoreCandles(all []exchange.CandleState) error {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Symbol == all[0].Symbol {
			n++
		}
		s := f.symbols[all[0].Symbol]
		if s == nil {
			return fmt.Errorf("market: candles of %s, which was never created", all[0].Symbol)
		}
		s.candles = new(candles)
		if err := s.candles.restore(all[:n], s.traded.Trades, &f.slots.candles); err != nil {
			return fmt.Errorf("market: candles of %s: %w", s.name, err)
		}
		all = all[n:]
	}
	return nil
}

// restore loads the candles of a symbol that has had trades trades: the newest of each interval, and some older ones.
func (c *candles) restore(all []exchange.CandleState, trades uint64, slots *int) error {
	var newest [exchange.Intervals]exchange.Candle
	for n := range all {
		s := &all[n]
		if s.Interval >= exchange.Intervals || s.Trades == 0 || s.First == 0 ||
			s.Start != s.Interval.StartOf(s.Start) || newest[s.Interval].Trades > 0 && newest[s.Interval].Start >= s.Start {
			return fmt.Errorf("that of %d is malformed or out of order", s.Start)
		}
		if before := newest[s.Interval]; before.Trades > 0 {
			c.rings[s.Interval].add(&endedCandle{Candle: before}, s.Interval, slots)
		}
		newest[s.Interval] = s.Candle
	}
	for i, full := range newest {
		if full.Trades == 0 || full.Last() != trades {
			return fmt.Errorf("the newest of %s has trades %d to %d, of %d", exchange.Interval(i), full.First, full.Last(),
				trades)
		}
		if i > 0 { // a part does not include what the shorter interval's candle counts
			if full.Trades < newest[i-1].Trades {
				return fmt.Errorf("the newest of %s has less than that of %s", exchange.Interval(i), exchange.Interval(i-1))
			}
			full = without(full, &newest[i-1])
		}
		c.parts[i].Candle = full
	}
	return nil
}

// without returns c minus its newest trades, which are those of last. The result is empty if c has no other trades.
// High and Low still include the removed trades.
func without(c exchange.Candle, last *exchange.Candle) exchange.Candle {
	if c.Trades == last.Trades {
		return exchange.Candle{}
	}
	c.Shares, c.Notional = c.Shares.Sub(last.Shares), c.Notional.Minus(last.Notional)
	c.TakerBought, c.TakerPaid = c.TakerBought.Sub(last.TakerBought), c.TakerPaid.Minus(last.TakerPaid)
	c.Trades -= last.Trades
	return c
}
