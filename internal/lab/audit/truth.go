package audit

import (
	"cmp"
	"fmt"
	"math/big"

	"outcry/internal/door/xml/wire"
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
	amends   []amendRow             // that no client was asked for yet
	newest   int64                  // record of the newest amend that was taken in
	fills    int64
	cancels  int64
	accepted int64
}

// holding is what an account has free, and what its open orders hold: dollars in
// units of 10^-16, or shares in units of 10^-8.
type holding struct{ free, held *big.Int }

type order struct {
	instructions  // in effect
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

	replaces, replacedBy uint64
	before               int64      // executed by those that it replaced
	done                 int64      // executed
	best                 int64      // the other side's best price when it came, 0 if there was none
	reduces              []amendRow // that are not taken off yet, oldest first
	reduced              int64
	reducedAt            string
}

// total returns what an amend would have named the order's amount as it came: with what those that it
// replaced have executed.
func (o *order) total() int64 { return abs(o.amount) + o.before }

func (o *order) buys() bool { return o.amount > 0 }

// cancelRow is a row of cancels.
type cancelRow struct {
	shares, at string
	seq        int64
}

// amendRow is a row of amends.
type amendRow struct {
	seq           int64
	about, order  uint64 // the order that was amended, and the one that it left
	replaces      bool
	account       string // whose
	amount, limit int64  // as sent; the limit is 0 if none was
	reduced       int64
	at            string
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
		o.reduces = r.reduces[o.id]
		delete(r.reduces, o.id)
	}
	for id, reduces := range r.reduces {
		o := t.orders[id]
		if o == nil {
			return fmt.Errorf("order %d was reduced, and is not open or not in the tables: %+v", id, reduces)
		}
		o.reduces = append(o.reduces, reduces...)
	}
	for _, o := range r.orders {
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
