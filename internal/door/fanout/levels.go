package fanout

import (
	"cmp"
	"slices"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// Totals has the open shares by price of one side of a book; 0 at a price means that the level is gone.
type Totals map[exchange.Price]exchange.Position

// Set stores new totals.
func (t Totals) Set(levels []market.Level) {
	for _, l := range levels {
		t[l.Price] = l.Shares
	}
}

// Apply stores new totals, and deletes levels that are gone.
func (t Totals) Apply(levels []market.Level) {
	for _, l := range levels {
		if t[l.Price] = l.Shares; l.Shares.Sign() == 0 {
			delete(t, l.Price)
		}
	}
}

// Bids returns the levels, highest price first.
func (t Totals) Bids() []market.Level {
	return t.sorted(func(a, b market.Level) int { return cmp.Compare(b.Price, a.Price) })
}

// Asks returns the levels, lowest price first.
func (t Totals) Asks() []market.Level {
	return t.sorted(func(a, b market.Level) int { return cmp.Compare(a.Price, b.Price) })
}

func (t Totals) sorted(compare func(a, b market.Level) int) []market.Level {
	all := make([]market.Level, 0, len(t))
	for price, shares := range t {
		all = append(all, market.Level{Price: price, Shares: shares})
	}
	slices.SortFunc(all, compare)
	return all
}

// BookChange has the changes of one or more records to a book.
type BookChange struct {
	Prev uint64 // record of the previous message
	Seq  uint64 // last of the records that changed the book
	Time int64  // time of record Seq, in nanoseconds since the Unix epoch

	Bids, Asks []market.Level // new totals, best first, each price once
}

// ChangeOf returns what the record of a change did to the book. It shares the change's memory.
func ChangeOf(c *market.Change) BookChange { return BookChange{c.Prev, c.Seq, c.Time, c.Bids, c.Asks} }

// Merge combines what several records changed in a book. Its zero value has no changes.
type Merge struct {
	prev, seq  uint64
	time       int64
	bids, asks Totals
}

// Start sets the record after which the merge begins.
func (m *Merge) Start(prev uint64) { *m = Merge{prev: prev, seq: prev} }

// Add adds the next change.
func (m *Merge) Add(c *BookChange) {
	if m.bids == nil {
		m.bids, m.asks = make(Totals), make(Totals)
	}
	m.bids.Set(c.Bids)
	m.asks.Set(c.Asks)
	m.seq, m.time = c.Seq, c.Time
}

// Levels returns the number of changed levels, 0 if no change was added.
func (m *Merge) Levels() int { return len(m.bids) + len(m.asks) }

// Take returns all changes as one, and starts the merge again after them.
func (m *Merge) Take() BookChange {
	c := BookChange{m.prev, m.seq, m.time, m.bids.Bids(), m.asks.Asks()}
	m.Start(m.seq)
	return c
}
