package check

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"outcry/internal/wire"
)

// truth is the exchange as its tables tell it, worked out a second time: it takes
// new rows of orders, executions and cancels, does every order again against
// lists of resting orders, and demands the executions that the tables have, and
// the balances and positions. It shares no code with the exchange.
type truth struct {
	last     uint64 // id of the newest order that was taken in
	orders   map[uint64]*order
	books    map[string]*book
	cash     map[string]*holding
	shares   map[[2]string]*holding // by symbol and account
	placed   map[string]*big.Int    // by symbol
	touched  map[uint64]bool        // orders that are new or changed since they were last asked for
	fills    int64
	cancels  int64
	accepted int64
}

// holding is what an account has free, and what its open orders hold: dollars in
// units of 10^-16, or shares in units of 10^-8.
type holding struct{ free, held *big.Int }

type order struct {
	id            uint64
	account, sym  string
	amount, limit int64
	open          int64
	seq           int64 // the journal record that it is of
	canceled      int64 // as the table says
	canceledAt    string
	canceledSeq   int64 // the record of its cancel
	released      bool  // what was open at its cancel is given back
	executed      []wire.Executed
}

func (o *order) buys() bool { return o.amount > 0 }

// cancelRow is a row of cancels.
type cancelRow struct {
	shares, at string
	seq        int64
}

// fill is a row of executions.
type fill struct {
	taker, resting uint64
	shares, price  int64
	time           string
}

// book holds the open orders of a symbol on either side, best first.
type book struct{ bids, asks []*order }

func (b *book) side(buys bool) *[]*order {
	if buys {
		return &b.bids
	}
	return &b.asks
}

// better orders two orders of one side by price, then by id: an id rises within
// a symbol, so it is time.
func better(a, b *order) int {
	byPrice := cmp.Compare(a.limit, b.limit)
	if a.buys() {
		byPrice = -byPrice
	}
	return cmp.Or(byPrice, cmp.Compare(a.id, b.id))
}

func newTruth() *truth {
	return &truth{orders: map[uint64]*order{}, books: map[string]*book{}, cash: map[string]*holding{},
		shares: map[[2]string]*holding{}, placed: map[string]*big.Int{}, touched: map[uint64]bool{}}
}

// openAccount takes in an account that the tables have.
func (t *truth) openAccount(id string, cash *big.Int) {
	t.cash[id] = &holding{free: cash, held: new(big.Int)}
}

// placeShares takes in shares that were placed.
func (t *truth) placeShares(sym, account string, shares *big.Int) {
	h := t.position(sym, account)
	h.free = new(big.Int).Add(h.free, shares)
	if t.placed[sym] == nil {
		t.placed[sym] = new(big.Int)
	}
	t.placed[sym] = new(big.Int).Add(t.placed[sym], shares)
}

func (t *truth) position(sym, account string) *holding {
	key := [2]string{sym, account}
	if t.shares[key] == nil {
		t.shares[key] = &holding{new(big.Int), new(big.Int)}
	}
	return t.shares[key]
}

// advance does what is new again. The error names the first thing that cannot be.
func (t *truth) advance(r *rows) error {
	for id, c := range r.canceled {
		if o := t.orders[id]; o != nil {
			if err := o.willCancel(c); err != nil {
				return err
			}
			t.touched[id] = true
		}
	}
	for _, o := range r.orders {
		if c, ok := r.canceled[o.id]; ok {
			if err := o.willCancel(c); err != nil {
				return err
			}
		}
		if err := t.accept(o, r.fills[o.id]); err != nil {
			return err
		}
		delete(r.fills, o.id)
	}
	for id := range r.fills {
		return fmt.Errorf("order %d has executions and is not in the tables", id)
	}
	return t.settleCancels(r)
}

// willCancel notes that the tables know a cancel of the order.
func (o *order) willCancel(c cancelRow) error {
	shares, ok := new(big.Rat).SetString(c.shares)
	if !ok || o.canceled != 0 {
		return fmt.Errorf("order %d: canceled %q at %q", o.id, c.shares, c.at)
	}
	o.canceled, o.canceledAt = new(big.Int).Div(new(big.Int).Mul(shares.Num(), big.NewInt(unit)),
		shares.Denom()).Int64(), c.at
	o.canceledSeq = c.seq
	return nil
}

// accept reserves for an order, matches it, and compares with its executions.
func (t *truth) accept(o *order, fills []fill) error {
	t.reserve(o)
	o.open = abs(o.amount)
	t.orders[o.id], t.touched[o.id] = o, true
	t.accepted++
	t.last = o.id
	b := t.books[o.sym]
	if b == nil {
		b = new(book)
		t.books[o.sym] = b
	}
	against := b.side(!o.buys())
	for _, f := range fills {
		r := t.next(against, o)
		switch {
		case r == nil:
			return fmt.Errorf("order %d executed against %d, but nothing that it could execute against was open",
				o.id, f.resting)
		case r.id != f.resting || r.limit != f.price || min(o.open, r.open) != f.shares:
			return fmt.Errorf("order %d executed %s at %s against %d; by price and time it was to be %s at %s against %d",
				o.id, decimal(f.shares), decimal(f.price), f.resting, decimal(min(o.open, r.open)), decimal(r.limit), r.id)
		}
		t.execute(o, r, f)
		if r.open == 0 {
			*against = (*against)[1:]
		}
	}
	if o.open == 0 {
		return nil
	}
	if r := t.next(against, o); r != nil {
		return fmt.Errorf("order %d stays open with %s, and %d is open at a price that suits it", o.id, decimal(o.open), r.id)
	}
	mine := b.side(o.buys())
	at, _ := slices.BinarySearchFunc(*mine, o, better)
	*mine = slices.Insert(*mine, at, o)
	return nil
}

// next returns the open order that o has to execute against. One that it passes
// over must have been canceled before, with all that is open of it now.
func (t *truth) next(against *[]*order, o *order) *order {
	for len(*against) > 0 {
		r := (*against)[0]
		if o.buys() && r.limit > o.limit || !o.buys() && r.limit < o.limit {
			return nil
		}
		if r.canceled == 0 || r.canceled != r.open || r.canceledSeq > o.seq {
			return r
		}
		t.release(r)
		*against = (*against)[1:]
	}
	return nil
}
