package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"outcry/internal/load"
	"outcry/internal/wire"
)

// The experiments that earlier systems of this protocol published, and our own.
var all = []Scenario{
	{
		Name: "cores", About: "one client: create, then order, query, cancel, one after another",
		Published: "176, 181 and 184 requests/s on 1, 2 and 4 cores",
		Defaults:  Params{Clients: 1, Depth: 1, Requests: 6000}, Uses: []string{"clients", "requests"},
		prepare: oneMarket, source: newSequence,
	}, {
		Name: "burst", About: "many clients at once, each with a connection and one order",
		Published: "550 requests/s beyond 5,000 clients",
		Defaults:  Params{Clients: 5000, Requests: 1, Accounts: 50, Symbols: 10},
		Uses:      []string{"clients", "requests", "accounts", "symbols"},
		prepare:   openMarket, source: func(r *Run, n int) load.Source {
			return newTrader(r, n, uniform(r.Params.Symbols))
		}, connect: true,
	}, {
		Name: "mix5", About: "five requests at random: two creates, buy and query, sell and query, buy, query and cancel",
		Published: "362, 603, 623 and 512 requests/s from 4, 20, 50 and 200 threads; 2 threads with 1,000 requests each " +
			"took 4.7 to 6.3 s on 1 and 2 cores, about 1 s on 3 and 4",
		Defaults: Params{Clients: 20, Depth: 1, Requests: 1000}, Uses: []string{"clients", "requests", "duration"},
		prepare: oneMarket, source: newMix,
	}, {
		Name: "populate", About: "users with three positions and three orders each",
		Published: "10,000 users; no figure",
		Defaults:  Params{Clients: 1, Depth: 1, Requests: 10_000}, Uses: []string{"clients", "depth", "requests"},
		prepare: nil, source: newUsers,
	}, {
		Name: "populate-connect", About: "the same, with a connection for each request",
		Published: "10,000 users; no figure",
		Defaults:  Params{Clients: 16, Requests: 625}, Uses: []string{"clients", "requests"},
		prepare: nil, source: newUsers, connect: true,
	}, {
		Name: "query10", About: "ten queries a request, 4,000 requests in all",
		Published: "35.7 s over one connection, 36.8 s over 16",
		Defaults:  Params{Clients: 16, Depth: 1, Requests: 250, PerFrame: 10, Accounts: 1000, Symbols: 10, Orders: 30_000},
		Uses:      []string{"clients", "depth", "requests", "per_frame", "orders", "duration"},
		prepare:   restingMarket, source: newQueries,
	}, {
		Name: "query81", About: "81 clients, each 1,000 queries in a loop",
		Published: "88, 70 and 61 s on 1, 2 and 4 cores",
		Defaults:  Params{Clients: 81, Depth: 1, Requests: 1000, PerFrame: 1, Accounts: 100, Symbols: 10, Orders: 10_000},
		Uses:      []string{"clients", "depth", "requests", "orders", "duration"},
		prepare:   restingMarket, source: newQueries,
	}, {
		Name: "accounts", About: "accounts are opened by many clients at once, each with a connection",
		Published: "1,000, 5,000 and 10,000 clients: the latency fell up to 3 cores and rose at 4",
		Defaults:  Params{Clients: 5000, Requests: 1}, Uses: []string{"clients", "requests"},
		source: newAccounts, connect: true,
	}, {
		Name: "market", About: "60 % passive orders near a moving price, 25 % cancels, 15 % crossing orders, over symbols " +
			"with a Zipf weight",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 100, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "per_frame"},
		prepare:  openMarket, source: func(r *Run, n int) load.Source { return newTrader(r, n, r.weights.draw) },
	}, {
		Name: "steady", About: "the same flow with crossing orders that take whatever rests: the books stay as they are, " +
			"for as long as it goes on",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 100, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "per_frame"},
		prepare:  openMarket, source: newSteadyTrader,
	}, {
		Name: "hot", About: "the same flow in one symbol",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 1, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "per_frame"},
		prepare:  openMarket, source: func(r *Run, n int) load.Source { return newTrader(r, n, uniform(1)) },
	}, {
		Name: "wide", About: "the same flow over 10,000 symbols, evenly",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 16, Symbols: 10_000, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "per_frame"},
		prepare:  openMarket, source: func(r *Run, n int) load.Source { return newTrader(r, n, uniform(r.Params.Symbols)) },
	}, {
		Name: "deep", About: "the same flow with a million orders that rest",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 10, Orders: 1_000_000, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "orders", "per_frame"},
		prepare:  restingMarket, source: func(r *Run, n int) load.Source {
			return newTrader(r, n, uniform(r.Params.Symbols))
		},
	},
}

// uniform draws each of n symbols as often.
func uniform(n int) func(*rand.Rand) int {
	return func(r *rand.Rand) int { return r.IntN(max(n, 1)) }
}

// oneMarket opens one account and one symbol for each client and a common pair.
func oneMarket(ctx context.Context, r *Run) error {
	r.Params.Accounts, r.Params.Symbols = max(r.Params.Clients, 2), 1
	return openMarket(ctx, r)
}

// restingMarket opens a market and lets orders rest in it.
func restingMarket(ctx context.Context, r *Run) error {
	if err := openMarket(ctx, r); err != nil {
		return err
	}
	return r.send(ctx, restOrders(r))
}

// sequence sends order, query, cancel, one after another.
type sequence struct {
	tally   *Tally
	account string
	step    int
	id      uint64
	price   string
}

func newSequence(r *Run, client int) load.Source {
	return r.limited(&sequence{tally: r.tally(), account: strconv.Itoa(client + 1), price: fmt.Sprint(1 + client)})
}

func (s *sequence) Next() []byte {
	t := wire.NewTransactions(s.account)
	switch s.step % 3 {
	case 0:
		t.Order(symbolName(0), "1", s.price)
	case 1:
		t.Query(strconv.FormatUint(s.id, 10))
	case 2:
		t.Cancel(strconv.FormatUint(s.id, 10))
	}
	s.step++
	return s.tally.sends(t.Append(nil))
}

func (s *sequence) Reply(xml []byte) error {
	err := s.tally.take(xml, nothingRefused)
	if len(s.tally.opened) > 0 {
		s.id = s.tally.opened[0]
	}
	return err
}

// mix sends one of five requests at random. A query or a cancel names the last
// order that this client was told of.
type mix struct {
	r       *rand.Rand
	tally   *Tally
	client  int
	account string
	made    int
	last    uint64
}

func newMix(r *Run, client int) load.Source {
	return r.limited(&mix{r: r.random(client), tally: r.tally(), client: client, account: strconv.Itoa(client + 1)})
}

func (m *mix) Next() []byte {
	last := strconv.FormatUint(max(m.last, 1), 10)
	price := strconv.Itoa(95 + m.r.IntN(11))
	switch m.r.IntN(5) {
	case 0:
		m.made++
		id := fmt.Sprintf("7%05d%07d", m.client, m.made)
		return m.tally.sends(new(wire.Create).Account(wire.Account{ID: id, Balance: "1000"}).
			Symbol(symbolName(0), wire.Placement{Account: id, Shares: "10"}).Append(nil))
	case 1:
		return m.tally.sends(new(wire.Create).Symbol("MIX"+strconv.Itoa(m.r.IntN(20)),
			wire.Placement{Account: m.account, Shares: "10"}).Append(nil))
	case 2:
		return m.tally.sends(wire.NewTransactions(m.account).Order(symbolName(0), "1", price).Query(last).Append(nil))
	case 3:
		return m.tally.sends(wire.NewTransactions(m.account).Order(symbolName(0), "-1", price).Query(last).Append(nil))
	}
	return m.tally.sends(wire.NewTransactions(m.account).Order(symbolName(0), "1", price).
		Query(last).Cancel(last).Append(nil))
}

// Reply implements load.Source. Before a client's first order its queries name
// order 1, which may be another's or not be there.
func (m *mix) Reply(xml []byte) error {
	err := m.tally.take(xml, func(text string) bool { return tooLate(text) || m.last == 0 && early(text) })
	if len(m.tally.opened) > 0 {
		m.last = m.tally.opened[0]
	}
	return err
}

// users makes a user with three positions, and then its three orders.
type users struct {
	tally  *Tally
	client int
	n      int
	orders bool
}

func newUsers(r *Run, client int) load.Source {
	p := r.Params
	p.Requests *= 2 // a create and its orders
	s := &users{tally: r.tally(), client: client}
	if p.Requests == 0 {
		return s
	}
	return &limited{s, p.Requests}
}

func (u *users) Next() []byte {
	if !u.orders {
		u.n++
	}
	u.orders = !u.orders
	id := fmt.Sprintf("%d%07d", u.client+1, u.n)
	if u.orders {
		c := new(wire.Create).Account(wire.Account{ID: id, Balance: "100000"})
		for i := range 3 {
			c.Symbol(symbolName((u.n+i)%10), wire.Placement{Account: id, Shares: "100"})
		}
		return u.tally.sends(c.Append(nil))
	}
	t := wire.NewTransactions(id)
	for i := range 3 {
		t.Order(symbolName((u.n+i)%10), []string{"10", "-10", "5"}[i], strconv.Itoa(90+(u.n+3*i)%20))
	}
	return u.tally.sends(t.Append(nil))
}

func (u *users) Reply(xml []byte) error { return u.tally.take(xml, nothingRefused) }

// queries asks for orders that rest, at random.
type queries struct {
	r     *rand.Rand
	run   *Run
	tally *Tally
	xml   []byte
}

func newQueries(r *Run, client int) load.Source {
	return r.limited(&queries{r: r.random(client), run: r, tally: r.tally()})
}

// Next is written out: made of wire.Transactions, ten queries took the client longer
// than their decoding takes an exchange on the same machine.
func (q *queries) Next() []byte {
	n := max(q.run.Params.PerFrame, 1)
	b := append(q.xml[:0], `<transactions id="1">`...)
	for range n {
		b = strconv.AppendInt(append(b, `<query id="`...), int64(1+q.r.IntN(q.run.Params.Orders)), 10)
		b = append(b, `"/>`...)
	}
	q.xml = append(b, "</transactions>"...)
	q.tally.owes(n)
	return q.xml
}

func (q *queries) Reply(xml []byte) error { return q.tally.take(xml, nothingRefused) }

// accounts opens one account after another.
type accounts struct {
	tally  *Tally
	client int
	n      int
}

func newAccounts(r *Run, client int) load.Source {
	return r.limited(&accounts{tally: r.tally(), client: client})
}

func (a *accounts) Next() []byte {
	a.n++
	return a.tally.sends(new(wire.Create).Account(
		wire.Account{ID: fmt.Sprintf("%d%07d", a.client+1, a.n), Balance: "100"}).Append(nil))
}

func (a *accounts) Reply(xml []byte) error { return a.tally.take(xml, nothingRefused) }
