package scenario

import (
	"context"
	"math/rand/v2"
	"strconv"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
)

// ownMarket makes one symbol, an account for each client, and a resting order for each account.
func ownMarket(ctx context.Context, r *Run) error {
	r.Params.Accounts, r.Params.Symbols = r.Params.Clients, 1
	return orderEach(ctx, r)
}

// twoAccounts does the same as ownMarket with two accounts for all clients.
func twoAccounts(ctx context.Context, r *Run) error {
	r.Params.Accounts, r.Params.Symbols = 2, 1
	return orderEach(ctx, r)
}

// orderEach opens a market and places a resting order for each client, which the client's first query or cancel can
// name.
func orderEach(ctx context.Context, r *Run) error {
	r.Params.Orders = r.Params.Clients
	return restingMarket(ctx, r)
}

// restingMarket opens a market and places resting orders in it.
func restingMarket(ctx context.Context, r *Run) error {
	if err := openMarket(ctx, r); err != nil {
		return err
	}
	r.resting = make([]uint64, r.Params.Orders)
	return r.send(ctx, restOrders(r))
}

// trading is the state of a client of the earlier systems' experiments.
type trading struct {
	run     *Run
	tally   *Tally
	account string
	last    uint64 // id of the last order; at first the client's resting order
}

func newTrading(r *Run, client int) trading {
	return trading{r, r.tally(), r.account(client%r.Params.Accounts + 1), r.resting[client]}
}

// took records the id of the last order.
func (t *trading) took(err error) error {
	if n := len(t.tally.opened); n > 0 {
		t.last = t.tally.opened[n-1]
	}
	return err
}

// newAccount returns a frame that opens an account with shares.
func (t *trading) newAccount() []byte {
	id := t.run.fresh()
	return t.tally.sends(new(wire.Create).Account(wire.Account{ID: id, Balance: "1000"}).
		Symbol(t.run.symbol(0), wire.Placement{Account: id, Shares: "10"}).Append(nil))
}

// pairs sends two frames for each request. Its queries and cancels name the order of the previous
// request, since an order's id is not known within its own frame.
type pairs struct {
	trading
	created bool
	price   string
}

func newPairs(r *Run, client int) load.Source {
	return &limited{&pairs{trading: newTrading(r, client), price: strconv.Itoa(1 + client%50)}, 2 * r.Params.Requests}
}

// Next implements load.Source.
func (p *pairs) Next() []byte {
	if p.created = !p.created; p.created {
		return p.newAccount()
	}
	last := strconv.FormatUint(p.last, 10)
	return p.tally.sends(wire.NewTransactions(p.account).Order(p.run.symbol(0), "1", p.price).Query(last).
		Cancel(last).Append(nil))
}

// Reply implements load.Source.
func (p *pairs) Reply(xml []byte) error { return p.took(p.tally.addReply(xml, nothingRefused)) }

// mix sends one of five requests at random. A query or a cancel names the last order whose id this client
// has received.
type mix struct {
	trading
	r *rand.Rand
}

func newMix(r *Run, client int) load.Source {
	return r.limited(&mix{newTrading(r, client), r.random(client)})
}

// Next implements load.Source.
func (m *mix) Next() []byte {
	last, price, sym := strconv.FormatUint(m.last, 10), strconv.Itoa(95+m.r.IntN(11)), m.run.symbol(0)
	switch m.r.IntN(5) {
	case 0:
		return m.newAccount()
	case 1:
		return m.tally.sends(new(wire.Create).Symbol(m.run.Tag+"MIX"+strconv.Itoa(m.r.IntN(20)),
			wire.Placement{Account: m.account, Shares: "10"}).Append(nil))
	case 2:
		return m.tally.sends(wire.NewTransactions(m.account).Order(sym, "1", price).Query(last).Append(nil))
	case 3:
		return m.tally.sends(wire.NewTransactions(m.account).Order(sym, "-1", price).Query(last).Append(nil))
	}
	return m.tally.sends(wire.NewTransactions(m.account).Order(sym, "1", price).Query(last).Cancel(last).Append(nil))
}

// Reply implements load.Source.
func (m *mix) Reply(xml []byte) error { return m.took(m.tally.addReply(xml, tooLate)) }

// users sends pairs of frames: one opens a user's account with three positions, the next places the user's three
// orders.
type users struct {
	run    *Run
	tally  *Tally
	n      int
	id     string
	orders bool
}

func newUsers(r *Run, _ int) load.Source {
	s := &users{run: r, tally: r.tally()}
	if r.Params.Requests == 0 {
		return s
	}
	return &limited{s, 2 * r.Params.Requests} // a create and its orders
}

// Next implements load.Source.
func (u *users) Next() []byte {
	u.orders = !u.orders
	if u.orders {
		u.n++
		u.id = u.run.fresh()
		c := new(wire.Create).Account(wire.Account{ID: u.id, Balance: "100000"})
		for i := range 3 {
			c.Symbol(u.run.symbol((u.n+i)%10), wire.Placement{Account: u.id, Shares: "100"})
		}
		return u.tally.sends(c.Append(nil))
	}
	t := wire.NewTransactions(u.id)
	for i := range 3 {
		t.Order(u.run.symbol((u.n+i)%10), []string{"10", "-10", "5"}[i], strconv.Itoa(90+(u.n+3*i)%20))
	}
	return u.tally.sends(t.Append(nil))
}

// Reply implements load.Source.
func (u *users) Reply(xml []byte) error { return u.tally.addReply(xml, nothingRefused) }

// queries queries random resting orders.
type queries struct {
	r     *rand.Rand
	run   *Run
	tally *Tally
	head  string
	xml   []byte
}

func newQueries(r *Run, client int) load.Source {
	return r.limited(&queries{r: r.random(client), run: r, tally: r.tally(),
		head: `<transactions id="` + r.account(1) + `">`})
}

// Next builds its frame without wire.Transactions, with which the client took longer to make ten queries than an
// exchange on the same machine takes to decode them.
func (q *queries) Next() []byte {
	n := max(q.run.Params.PerFrame, 1)
	b := append(q.xml[:0], q.head...)
	for range n {
		b = strconv.AppendUint(append(b, `<query id="`...), q.run.resting[q.r.IntN(len(q.run.resting))], 10)
		b = append(b, `"/>`...)
	}
	q.xml = append(b, "</transactions>"...)
	q.tally.owes(n)
	return q.xml
}

// Reply implements load.Source.
func (q *queries) Reply(xml []byte) error { return q.tally.addReply(xml, nothingRefused) }

// accounts opens one account after another.
type accounts struct {
	run   *Run
	tally *Tally
}

func newAccounts(r *Run, _ int) load.Source { return r.limited(&accounts{r, r.tally()}) }

// Next implements load.Source.
func (a *accounts) Next() []byte {
	return a.tally.sends(new(wire.Create).Account(wire.Account{ID: a.run.fresh(), Balance: "100"}).Append(nil))
}

// Reply implements load.Source.
func (a *accounts) Reply(xml []byte) error { return a.tally.addReply(xml, nothingRefused) }
