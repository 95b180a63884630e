package torture

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/jackc/pgx/v5"

	"outcry/internal/wire"
)

func abs(v int64) int64 { return max(v, -v) }

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// move adds v to *to and takes it from *from; either may be nil.
func move(from, to **big.Int, v *big.Int) {
	if from != nil {
		*from = new(big.Int).Sub(*from, v)
	}
	if to != nil {
		*to = new(big.Int).Add(*to, v)
	}
}

// money returns the cash of an account; one that the tables do not have comes out
// as a difference later.
func (t *truth) money(account string) *holding {
	if t.cash[account] == nil {
		t.openAccount(account, new(big.Int))
	}
	return t.cash[account]
}

// reserve moves what an order may cost from free to held. Whether there was
// enough at the time shows at the end, when nothing may be negative: orders of
// several symbols are not taken in as they came.
func (t *truth) reserve(o *order) {
	if o.buys() {
		h := t.money(o.account)
		move(&h.free, &h.held, product(o.amount, o.limit))
		return
	}
	h := t.position(o.sym, o.account)
	move(&h.free, &h.held, big.NewInt(-o.amount))
}

// release gives back what is open of a canceled order.
func (t *truth) release(o *order) {
	if o.buys() {
		h := t.money(o.account)
		move(&h.held, &h.free, product(o.open, o.limit))
	} else {
		h := t.position(o.sym, o.account)
		move(&h.held, &h.free, big.NewInt(o.open))
	}
	o.open = 0
	t.cancels++
	t.touched[o.id] = true
}

// execute trades between an incoming order and a resting one.
func (t *truth) execute(o, r *order, f fill) {
	buy, sell := o, r
	if r.buys() {
		buy, sell = r, o
	}
	o.open -= f.shares
	r.open -= f.shares
	e := wire.Executed{Shares: decimal(f.shares), Price: decimal(f.price), Time: f.time}
	o.executed, r.executed = append(o.executed, e), append(r.executed, e)
	t.touched[r.id] = true
	t.fills++

	buyer, seller := t.money(buy.account), t.money(sell.account)
	move(&buyer.held, &seller.free, product(f.shares, f.price))
	move(&buyer.held, &buyer.free, product(f.shares, buy.limit-f.price))
	move(&t.position(o.sym, sell.account).held, &t.position(o.sym, buy.account).free, big.NewInt(f.shares))
}

// settleCancels does the cancels that no later order has passed over, and
// compares what the tables say is open.
func (t *truth) settleCancels(r *rows) error {
	changed := map[*book]bool{}
	for id := range r.canceled {
		o := t.orders[id]
		if o == nil || o.open == 0 {
			continue
		}
		if o.canceled != o.open {
			return fmt.Errorf("order %d was canceled with %s open; by its executions it had %s", id, decimal(o.canceled), decimal(o.open))
		}
		t.release(o)
		changed[t.books[o.sym]] = true
	}
	for b := range changed {
		for _, side := range []*[]*order{&b.bids, &b.asks} {
			*side = slices.DeleteFunc(*side, func(o *order) bool { return o.open == 0 })
		}
	}
	for id, open := range r.open {
		if o := t.orders[id]; o == nil || o.open != open {
			return fmt.Errorf("order %d: the table has %s open, its executions leave %s", id, decimal(open), decimal(o.open))
		}
	}
	return nil
}

// compare demands that the tables' balances and positions are the truth's, to the
// last fraction, that none is negative, and that each symbol has the shares that
// were placed.
func (t *truth) compare(ctx context.Context, tx pgx.Tx) error {
	err := compareHoldings(ctx, tx, `SELECT 'account ' || id, balance::text, held::text FROM accounts`, 16, func(yield func(string, *holding)) {
		for id, h := range t.cash {
			yield("account "+id, h)
		}
	})
	if err != nil {
		return err
	}
	err = compareHoldings(ctx, tx, `SELECT 'position ' || sym || ' ' || account, shares::text, held::text FROM positions`, 8, func(yield func(string, *holding)) {
		for key, h := range t.shares {
			yield("position "+key[0]+" "+key[1], h)
		}
	})
	if err != nil {
		return err
	}
	sums := map[string]*big.Int{}
	for key, h := range t.shares {
		sum := sums[key[0]]
		if sum == nil {
			sum = new(big.Int)
			sums[key[0]] = sum
		}
		sum.Add(sum, h.free).Add(sum, h.held)
	}
	for sym, placed := range t.placed {
		if sums[sym].Cmp(placed) != 0 {
			return fmt.Errorf("symbol %s has %s shares of %s that were placed", sym, shortest(sums[sym], 8), shortest(placed, 8))
		}
	}
	return nil
}

// compareHoldings compares a table with what it has to hold.
func compareHoldings(ctx context.Context, tx pgx.Tx, sql string, places int, want func(yield func(string, *holding))) error {
	found, err := tx.Query(ctx, sql)
	if err != nil {
		return fmt.Errorf("torture: holdings: %w", err)
	}
	defer found.Close()
	table := map[string][2]string{}
	for found.Next() {
		var key string
		var have [2]string
		if err := found.Scan(&key, &have[0], &have[1]); err != nil {
			return fmt.Errorf("torture: holdings: %w", err)
		}
		table[key] = have
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("torture: holdings: %w", err)
	}
	var wrong error
	seen := 0
	want(func(key string, h *holding) {
		seen++
		have, ok := table[key]
		switch {
		case wrong != nil:
		case !ok && h.free.Sign() == 0 && h.held.Sign() == 0:
			seen--
		case !ok:
			wrong = fmt.Errorf("%s is not in the tables, and has to hold %s", key, shortest(h.free, places))
		case !equals(have[0], h.free, places) || !equals(have[1], h.held, places):
			wrong = fmt.Errorf("%s has %s free and %s held in the tables; by the orders and executions it is %s and %s",
				key, have[0], have[1], shortest(h.free, places), shortest(h.held, places))
		}
	})
	if wrong == nil && seen != len(table) {
		wrong = fmt.Errorf("the tables have %d rows of which nobody knows (%s)", len(table)-seen, sql)
	}
	return wrong
}

func equals(text string, v *big.Int, places int) bool {
	have, ok := new(big.Rat).SetString(text)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	return ok && have.Cmp(new(big.Rat).SetFrac(v, scale)) == 0
}

// status returns the answer that a query of the order has to have.
func (o *order) status() wire.Answer {
	a := wire.Answer{Kind: "status", ID: fmt.Sprint(o.id), Executed: o.executed}
	if o.open > 0 {
		a.Open = decimal(o.open)
	}
	if o.canceled > 0 {
		a.Canceled, a.CanceledAt = decimal(o.canceled), o.canceledAt
	}
	return a
}
