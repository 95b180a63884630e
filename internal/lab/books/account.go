package books

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"outcry/clients/go/client"
	"outcry/clients/go/stream"
)

// account follows the private events of one account, resumes after the last event when a connection
// breaks, and adds up what the events say.
type account struct {
	w  *Watchers
	id string

	mu        sync.Mutex // guards the fields below; only connected writes them
	known     bool       // a snapshot was received
	n         uint64
	lastFill  uint64
	cash      *big.Rat // free plus held
	balance   client.Cash
	held      client.Cash
	positions map[string]stream.Position
	open      map[client.OrderID]client.Decimal // open shares of each open order
	executed  map[client.OrderID]client.Decimal // shares of all fills, by order
}

func newAccount(w *Watchers, id string) *account {
	return &account{w: w, id: id, positions: map[string]stream.Position{}, open: map[client.OrderID]client.Decimal{},
		executed: map[client.OrderID]client.Decimal{}}
}

// connected reads a connection until it or ctx ends.
func (a *account) connected(ctx context.Context, addresses []string) error {
	s, err := stream.Dial(ctx, strings.Join(addresses, ","), a.w.options())
	if err != nil {
		return err
	}
	defer s.Close()
	a.w.connections.Add(1)
	if a.known {
		err = s.SubscribeAfter(ctx, a.id, a.n, a.lastFill)
	} else {
		err = s.Subscribe(ctx, "account."+a.id)
	}
	for err == nil {
		var u *stream.Update
		if u, err = s.Next(ctx); err == nil {
			err = a.receive(ctx, s, u)
		}
		if stats := s.Stats(); err == nil && stats.Restarts > 0 {
			err = fmt.Errorf("%w: %d gaps between events: %s", errWrong, stats.Restarts, stats.Why)
		}
	}
	return err
}

// receive processes an event or a snapshot.
func (a *account) receive(ctx context.Context, s *stream.Stream, u *stream.Update) error {
	e, snapshot := u.Account, u.Snapshot
	if !snapshot && (!a.known || e.N != a.n+1) {
		return fmt.Errorf("%w: event %d follows event %d", errWrong, e.N, a.n)
	}
	fills := e.Fills
	if snapshot {
		a.w.snapshots.Add(1)
		if e.N < a.n || e.LastFill < a.lastFill {
			return fmt.Errorf("%w: a snapshot has event %d and fill %d, but event %d and fill %d came before it", errWrong, e.N,
				e.LastFill,
				a.n, a.lastFill)
		}
		var err error
		if fills, err = a.missed(ctx, s, e.LastFill); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range fills {
		if f.Fill != a.lastFill+1 {
			return fmt.Errorf("%w: fill %d follows fill %d, at event %d", errWrong, f.Fill, a.lastFill, e.N)
		}
		a.lastFill = f.Fill
		a.executed[f.Order] = a.executed[f.Order].Add(f.Shares)
	}
	a.w.events.Add(1)
	a.w.fills.Add(int64(len(fills)))
	if err := a.judge(e, fills, snapshot); err != nil {
		return fmt.Errorf("%w: event %d: %w", errWrong, e.N, err)
	}
	a.apply(e, snapshot)
	return nil
}

// missed requests the fills after the last known one, up to and including last.
func (a *account) missed(ctx context.Context, s *stream.Stream, last uint64) (fills []stream.Fill, err error) {
	for after := a.lastFill; after < last; {
		var page struct{ Fills []stream.Fill }
		params := map[string]any{"account": a.id, "after": after}
		if err := s.Call(ctx, "fills.list", params, &page); err != nil {
			return nil, err
		}
		if len(page.Fills) == 0 {
			return nil, fmt.Errorf("%w: the newest fill is %d, but none is returned after %d", errWrong, last, after)
		}
		for _, f := range page.Fills {
			if f.Fill <= last { // fills above last arrive as events
				fills = append(fills, f)
			}
			after = f.Fill
		}
		a.w.sleptOver.Add(int64(len(page.Fills)))
	}
	return fills, nil
}

// judge checks the cash, shares and orders of an event against its fills and the previous state. In a
// snapshot it checks only each order by itself.
func (a *account) judge(e *stream.Event, fills []stream.Fill, snapshot bool) error {
	filled := map[client.OrderID]client.Decimal{}
	spent, moved := new(big.Rat), map[string]client.Decimal{}
	for _, f := range fills {
		money := new(big.Rat).Mul(rat(f.Shares.String()), rat(f.Price.String()))
		shares := f.Shares
		if f.Side == "sell" {
			money, shares = money.Neg(money), shares.Neg()
		}
		spent.Add(spent, money)
		moved[f.Symbol] = moved[f.Symbol].Add(shares)
		filled[f.Order] = filled[f.Order].Add(f.Shares)
	}
	for _, o := range e.Orders {
		sum := o.Before.Add(o.Open).Add(o.Executed).Add(o.Canceled)
		if sum != absolute(o.Amount) {
			return fmt.Errorf("the amount of order %d is %s, but its parts add up to %s", o.ID, o.Amount, sum)
		}
		if o.Executed != a.executed[o.ID] {
			return fmt.Errorf("order %d has executed %s, but its fills add up to %s", o.ID, o.Executed, a.executed[o.ID])
		}
		delete(filled, o.ID)
	}
	if snapshot {
		return nil
	}
	if len(filled) > 0 {
		return fmt.Errorf("it has fills of orders that it does not list: %v", filled)
	}
	// There are no deposits of cash. Deposits of shares have no fills.
	if left := new(big.Rat).Sub(a.cash, spent); left.Cmp(cashOf(e)) != 0 {
		return fmt.Errorf("free and held cash is %s, but the fills leave %s", cashOf(e).FloatString(16), left.FloatString(16))
	}
	for _, p := range e.Positions {
		was, now := a.positions[p.Symbol], p.Shares.Add(p.Held)
		if change, ok := moved[p.Symbol]; ok && was.Shares.Add(was.Held).Add(change) != now {
			return fmt.Errorf("free and held shares of %s are %s; they were %s, and the fills move %s", p.Symbol, now,
				was.Shares.Add(was.Held), change)
		}
		delete(moved, p.Symbol)
	}
	if len(moved) > 0 {
		return fmt.Errorf("its fills move shares of positions that it does not list: %v", moved)
	}
	return nil
}

// apply updates the account with an event.
func (a *account) apply(e *stream.Event, snapshot bool) {
	if snapshot {
		clear(a.open)
		clear(a.positions)
	}
	for _, o := range e.Orders {
		if o.Open.Sign() == 0 {
			delete(a.open, o.ID)
		} else {
			a.open[o.ID] = o.Open
		}
	}
	for _, p := range e.Positions {
		a.positions[p.Symbol] = p
	}
	a.known, a.n, a.cash, a.balance, a.held = true, e.N, cashOf(e), e.Balance, e.Held
}

// cashOf returns the free plus the held cash of an event.
func cashOf(e *stream.Event) *big.Rat { return new(big.Rat).Add(e.Balance.Rat(), e.Held.Rat()) }

// rat parses text, which must be a number.
func rat(text string) *big.Rat { return client.Cash(text).Rat() }

func absolute(d client.Decimal) client.Decimal {
	if d.Sign() < 0 {
		return d.Neg()
	}
	return d
}

// compare compares the account with the tables.
func (a *account) compare(t *accountTruth) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.known:
		return fmt.Errorf("nothing has arrived")
	case a.lastFill != t.fills:
		return fmt.Errorf("the newest fill is %d, the tables have %d", a.lastFill, t.fills)
	case a.balance.Rat().Cmp(t.balance.Rat()) != 0, a.held.Rat().Cmp(t.held.Rat()) != 0:
		return fmt.Errorf("event %d: %s free and %s held, the tables have %s and %s", a.n, a.balance, a.held, t.balance,
			t.held)
	}
	if err := sameNumbers("open of order", a.open, t.open); err != nil {
		return err
	}
	return sameNumbers("executed of order", a.executed, t.executed)
}

// sameNumbers compares two maps of numbers by order.
func sameNumbers(what string, got, want map[client.OrderID]client.Decimal) error {
	for id, number := range want {
		if got[id] != number {
			return fmt.Errorf("%s %d: %s, the tables have %s", what, id, got[id], number)
		}
	}
	for id, number := range got {
		if _, there := want[id]; !there {
			return fmt.Errorf("%s %d: %s, the tables have none", what, id, number)
		}
	}
	return nil
}
