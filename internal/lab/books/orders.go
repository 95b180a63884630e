package books

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	"outcry/clients/go/client"
	"outcry/clients/go/stream"
)

// orders keeps every resting order from the channels orders.SYM.
type orders struct {
	w *Watchers

	mu    sync.Mutex // guards books
	books map[string]map[client.OrderID]resting
}

// resting is an order as the channel shows it.
type resting struct {
	buys          bool
	price, shares client.Decimal
}

// String returns the order's side, shares and price.
func (r resting) String() string {
	side := "sells"
	if r.buys {
		side = "buys"
	}
	return fmt.Sprintf("%s %s at %s", side, r.shares, r.price)
}

// entry is an element [id,"price","shares"] of a snapshot.
type entry struct {
	id client.OrderID
	resting
}

// UnmarshalJSON reads an entry.
func (e *entry) UnmarshalJSON(b []byte) error {
	parts := []any{&e.id, &e.price, &e.shares}
	return json.Unmarshal(b, &parts)
}

// ordersChange is a message of the channel, or a part of one.
type ordersChange struct {
	More       bool
	Bids, Asks []entry
	Changes    []struct {
		Op     string
		ID     client.OrderID
		Side   string
		Price  client.Decimal
		Shares client.Decimal
		Open   client.Decimal
	}
}

// connected reads a connection until it or ctx ends.
func (o *orders) connected(ctx context.Context, addresses []string) error {
	s, err := stream.Dial(ctx, strings.Join(addresses, ","), o.w.options())
	if err != nil {
		return err
	}
	defer s.Close()
	o.w.connections.Add(1)
	var names []string
	for _, sym := range o.w.o.Symbols {
		names = append(names, "orders."+sym)
	}
	if err := s.Subscribe(ctx, names...); err != nil {
		return err
	}
	books, partial := map[string]map[client.OrderID]resting{}, map[string]bool{}
	for {
		u, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if stats := s.Stats(); stats.Restarts > 0 {
			return fmt.Errorf("%w: a chain of orders did not fit: %s", errWrong, stats.Why)
		}
		var x ordersChange
		if err := json.Unmarshal(u.Data, &x); err != nil {
			return fmt.Errorf("%w: %s: %w", errWrong, u.Data, err)
		}
		sym := strings.TrimPrefix(u.Channel, "orders.")
		if u.Snapshot && !partial[sym] {
			books[sym] = map[client.OrderID]resting{}
		}
		if err := x.apply(books[sym]); err != nil {
			return fmt.Errorf("%w: %s at record %d: %w", errWrong, u.Channel, u.Seq, err)
		}
		partial[sym] = x.More
		o.w.updates.Add(1)
		o.mu.Lock()
		o.books[sym] = maps.Clone(books[sym])
		o.mu.Unlock()
	}
}

// apply applies the changes in order.
func (x *ordersChange) apply(to map[client.OrderID]resting) error {
	for buys, entries := range map[bool][]entry{true: x.Bids, false: x.Asks} {
		for _, e := range entries {
			to[e.id] = resting{buys, e.price, e.shares}
		}
	}
	for _, c := range x.Changes {
		was, there := to[c.ID]
		if there == (c.Op == "add") {
			return fmt.Errorf("%s of order %d; whether the book has that order: %t", c.Op, c.ID, there)
		}
		switch c.Op {
		case "add":
			to[c.ID] = resting{c.Side == "buy", c.Price, c.Shares}
		case "replace", "delete":
			delete(to, c.ID)
		case "fill", "reduce":
			if was.shares.Sub(c.Shares) != c.Open {
				return fmt.Errorf("%s by %s leaves %s of order %d, but it had %s", c.Op, c.Shares, c.Open, c.ID, was.shares)
			}
			was.shares = c.Open
			if to[c.ID] = was; c.Open.Sign() == 0 {
				delete(to, c.ID)
			}
		default:
			return fmt.Errorf("unknown op %q", c.Op)
		}
	}
	return nil
}

// compare compares the orders of a symbol with the tables.
func (o *orders) compare(sym string, want map[client.OrderID]resting) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	got, come := o.books[sym]
	if !come {
		return fmt.Errorf("orders.%s: nothing has arrived", sym)
	}
	for id, r := range want {
		if got[id] != r {
			return fmt.Errorf("orders.%s: order %d %s, in the tables it %s", sym, id, got[id], r)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("orders.%s: %d orders, the tables have %d", sym, len(got), len(want))
	}
	return nil
}
