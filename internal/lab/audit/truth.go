package audit

import (
	"cmp"
	"fmt"
	"math/big"

	"outcry/internal/door/xml/wire"
)

// truth computes the exchange's state a second time from its tables. It reads new rows of orders,
// executions and cancels, replays every order against lists of resting orders, and compares the
// executions, balances and positions with the tables. It shares no code with the exchange.
type truth struct {
	last     uint64 // id of the newest order read
	orders   map[uint64]*order
	books    map[string]*book
	cash     map[string]*holding
	shares   map[[2]string]*holding // by symbol and account
	placed   map[string]*big.Int    // shares deposited, by symbol
	touched  map[uint64]bool        // orders that are new or have changed since they were last queried
	amends   []amendRow             // amends not yet compared with what clients sent
	newest   int64                  // journal record of the newest amend read
	fills    int64
	cancels  int64
	accepted int64
}

// holding is a balance or position: its free part and the part that open orders hold, in units of 10^-16 dollars or
// 10^-8 shares.
type holding struct{ free, held *big.Int }

type order struct {
	instructions  // in effect
	id            uint64
	account, sym  string
	amount, limit int64
	open          int64
	seq           int64 // journal record of the order
	canceled      int64 // shares canceled according to the table
	canceledAt    string
	canceledSeq   int64 // journal record of its cancel
	released      bool  // the hold of its canceled shares was released
	executed      []wire.Executed

	replaces, replacedBy uint64
	before               int64      // shares executed by the orders that it replaced
	done                 int64      // shares executed
	best                 int64      // best price of the other side when the order arrived, or 0
	reduces              []amendRow // amends not applied yet, oldest first
	reduced              int64
	reducedAt            string
}

// total returns the order's amount as an amend states it: including the shares executed by the orders that it
// replaced.
func (o *order) total() int64 { return abs(o.amount) + o.before }

func (o *order) buys() bool { return o.amount > 0 }

// cancelRow is a row of the cancels.
type cancelRow struct {
	shares, at string
	seq        int64
}

// amendRow is a row of the amends.
type amendRow struct {
	seq           int64
	about, order  uint64 // the order that was amended, and the order that resulted
	replaces      bool
	account       string // owner of the order
	amount, limit int64  // as sent; limit is 0 if it was not sent
	reduced       int64
	at            string
}

// fill is a row of the executions.
type fill struct {
	taker, resting uint64
	shares, price  int64
	time           string
}

// book holds the open orders of each side of a symbol, best first.
type book struct{ bids, asks []*order }

func (b *book) side(buys bool) *[]*order {
	if buys {
		return &b.bids
	}
	return &b.asks
}

// better compares two orders of one side by price, then by id. Ids rise within a symbol, so this is time
// priority.
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

// openAccount records an account in the tables.
func (t *truth) openAccount(id string, cash *big.Int) {
	t.cash[id] = &holding{free: cash, held: new(big.Int)}
}

// placeShares records a deposit.
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

// advance replays the new rows. The error names the first inconsistency.
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
			return fmt.Errorf("order %d was reduced, but is not open or not in the tables: %+v", id, reduces)
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
		return fmt.Errorf("order %d has executions, but is not in the tables", id)
	}
	return t.settleCancels(r)
}

// willCancel records that the tables contain a cancel of the order.
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
