package books

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"outcry/clients/go/stream"
)

// chain keeps books from the channels book.SYM, checking their chain and checksum, and follows the
// trades.
type chain struct {
	w      *Watchers
	suffix string // suffix of the names of book channels

	mu     sync.Mutex             // guards the fields below
	books  map[string]stream.Book // by symbol; their sides are copies
	newest map[string]uint64      // id of the newest trade, by symbol
}

// connected reads a connection until it or ctx ends.
func (c *chain) connected(ctx context.Context, addresses []string) error {
	s, err := stream.Dial(ctx, strings.Join(addresses, ","), c.w.options())
	if err != nil {
		return err
	}
	defer s.Close()
	c.w.connections.Add(1)
	var names []string
	for _, sym := range c.w.o.Symbols {
		names = append(names, "book."+sym+c.suffix, "trades."+sym)
	}
	for some := range slices.Chunk(names, 100) { // symbols of one request
		if err := s.Subscribe(ctx, some...); err != nil {
			return err
		}
	}
	for {
		u, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if stats := s.Stats(); stats.Restarts > 0 {
			return fmt.Errorf("%w: a chain or checksum of %d channels did not fit: %s", errWrong, stats.Restarts, stats.Why)
		}
		if err := c.receive(ctx, s, u); err != nil {
			return err
		}
	}
}

// receive processes an update.
func (c *chain) receive(ctx context.Context, s *stream.Stream, u *stream.Update) error {
	_, sym, _ := strings.Cut(u.Channel, ".")
	if u.Book != nil {
		c.w.updates.Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.books[strings.TrimSuffix(sym, c.suffix)] = stream.Book{Seq: u.Seq, Bids: slices.Clone(u.Book.Bids),
			Asks: slices.Clone(u.Book.Asks)}
		return nil
	}
	c.mu.Lock()
	newest, known := c.newest[sym]
	c.mu.Unlock()
	if u.Snapshot && !known {
		newest = u.LastTrade
	}
	trades := u.Trades
	if u.Snapshot && u.LastTrade > newest {
		var err error
		if trades, err = c.missed(ctx, s, sym, newest, u.LastTrade); err != nil {
			return err
		}
	}
	for _, t := range trades {
		if t.ID <= newest { // the trade is from a node that has fewer records than the previous one
			continue
		}
		if t.ID != newest+1 {
			return fmt.Errorf("%w: trade %d of %s follows trade %d", errWrong, t.ID, sym, newest)
		}
		newest = t.ID
		c.w.trades.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest[sym] = newest
	return nil
}

// missed requests the trades that follow the trade after, at least up to last.
func (c *chain) missed(ctx context.Context, s *stream.Stream, sym string, after, last uint64) (
	trades []stream.Trade, err error) {
	for after < last {
		var page struct{ Trades []stream.Trade }
		if err := s.Call(ctx, "trades.list", map[string]any{"sym": sym, "after": after}, &page); err != nil {
			return nil, err
		}
		if len(page.Trades) == 0 {
			return nil, fmt.Errorf("%w: the newest trade of %s is %d, but none is returned after %d", errWrong, sym, last, after)
		}
		trades = append(trades, page.Trades...)
		after = trades[len(trades)-1].ID
		c.w.sleptOver.Add(int64(len(page.Trades)))
	}
	return trades, nil
}

// compare compares a book and the number of trades with the tables.
func (c *chain) compare(sym string, want *stream.Book, trades uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.books[sym]
	if err := sameBook("book."+sym+c.suffix, &got, want); err != nil {
		return err
	}
	if c.newest[sym] != trades {
		return fmt.Errorf("trades.%s: the newest is %d, the tables have %d", sym, c.newest[sym], trades)
	}
	return nil
}
