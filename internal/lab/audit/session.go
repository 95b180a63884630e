// Package audit tests a running exchange at an address. It proves that everything answered is present,
// that nothing happened twice, that nothing exists that was never sent, and that cash and shares add up
// to the last fraction.
//
// A Session is a sequence of rounds. In each round clients trade at random (client.go), while the caller
// may break the exchange. Then up to three views of the exchange are compared: what the clients sent and
// received (history.go, match.go, retry.go); what the tables of its Postgres hold, replayed order by
// order in a separate book (tables.go, truth.go, money.go); and what the exchange answers now
// (session.go). One symbol of each round is proved linearizable with porcupine (linear.go).
package audit

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"outcry/internal/door/xml/wire"
)

const (
	symbolCount  = 4
	accountCount = 16
	poorCount    = 3

	// AccountsOpened is how many accounts OpenMarket opens.
	AccountsOpened = accountCount + poorCount
	// SymbolsOpened is how many symbols OpenMarket makes.
	SymbolsOpened = symbolCount

	linearClients = 4
	linearTimeout = 60 * time.Second

	oldMax     = 2000 // closed orders of earlier rounds to remember
	oldQueries = 100  // remembered orders to query in each round
	queryBatch = 50   // queries in a frame
	askersMax  = 4    // concurrent connections for queries; Outcry queries Postgres over as many

	// The number of a round's bulk orders that are queried, and the most executions that one of them may have.
	bulkAskedMax = 1000
	bulkFillsMax = 1000
)

// Session has what is known about one exchange. Its methods must be called from one goroutine, except those whose
// comment says otherwise.
type Session struct {
	At        Target     // may change between rounds, and during a round if clients may reconnect at the same address
	Rand      *rand.Rand // randomness of everything except the clients
	End       *Ending    // how the running server may end
	Symbols   []string   // symbols that clients trade, set by OpenMarket
	NoCreates bool       // if true, clients open no accounts, because accounts are limited
	// LinearPace is the longest pause before a command for the linear symbol, so that its
	// commands spread over a fault.
	LinearPace time.Duration

	accounts []string // accounts with cash and shares for any order
	poor     []string // accounts that can afford little, and mostly spend what they just earned
	history  *knowledge
	truth    *truth
	linear   *linearHistory
	old      []*order     // sample of closed orders of earlier rounds
	oldSent  []*sentOrder // sample of closed orders of earlier rounds that have a ref
	checked  Checked
}

// Checked counts what was compared so far.
type Checked struct {
	Executions int64 `json:"executions_checked"`
	Cancels    int64 `json:"cancels_checked"`
	Orders     int64 `json:"orders_checked"`  // orders replayed from the tables
	Answers    int64 `json:"answers_checked"` // query answers compared with the tables
	LinearOps  int64 `json:"commands_proved_linearizable"`
	Accounts   int   `json:"accounts_checked"`
}

// Add adds the counts of another exchange.
func (c *Checked) Add(more Checked) {
	c.Executions += more.Executions
	c.Cancels += more.Cancels
	c.Orders += more.Orders
	c.Answers += more.Answers
	c.LinearOps += more.LinearOps
	c.Accounts += more.Accounts
}

// NewSession returns a session for an exchange in which nothing has happened yet. Orders of the bulk
// accounts have no serial numbers: see BulkSent.
func NewSession(at Target, r *rand.Rand, bulk ...string) *Session {
	return &Session{At: at, Rand: r, End: new(Ending), history: newKnowledge(bulk), truth: newTruth()}
}

// Checked returns how much was compared so far.
func (s *Session) Checked() Checked {
	c := s.checked
	c.Orders, c.Executions, c.Cancels = s.truth.accepted, s.truth.fills, s.truth.cancels
	c.Accounts = len(s.truth.cash)
	return c
}

// OpenMarket opens the accounts and symbols that clients trade. It must be called first.
func (s *Session) OpenMarket(ctx context.Context) error {
	c := new(wire.Create)
	for n := range accountCount {
		s.accounts = append(s.accounts, fmt.Sprint(n+1))
		s.Account(c, s.accounts[n], 1_000_000_000_000)
	}
	for n := range poorCount {
		s.poor = append(s.poor, fmt.Sprint(101+n))
		s.Account(c, s.poor[n], 500)
	}
	for n := range symbolCount {
		sym := fmt.Sprintf("SYM%d", n)
		s.Symbols = append(s.Symbols, sym)
		s.Deposit(c, sym, s.accounts, 1_000_000_000)
		s.Deposit(c, sym, s.poor, 5)
	}
	return s.MustCreate(ctx, c)
}

// Account adds an account with whole dollars to a frame, and records it as opened. The frame must be
// accepted.
func (s *Session) Account(c *wire.Create, id string, dollars int64) {
	c.Account(wire.Account{ID: id, Balance: fmt.Sprint(dollars)})
	s.Opened(id, dollars)
}

// Opened records that the exchange has an account that was opened with whole dollars.
func (s *Session) Opened(id string, dollars int64) {
	s.truth.openAccount(id, new(big.Int).Mul(product(dollars, unit), big.NewInt(unit)))
}

// Deposit adds deposits of whole shares of a symbol to a frame, and records them. The frame must be
// accepted.
func (s *Session) Deposit(c *wire.Create, sym string, accounts []string, shares int64) {
	var all []wire.Placement
	for _, id := range accounts {
		all = append(all, wire.Placement{Account: id, Shares: fmt.Sprint(shares)})
		s.truth.placeShares(sym, id, product(shares, unit))
	}
	c.Symbol(sym, all...)
}

// MustCreate sends a frame and returns an error if any part is rejected.
func (s *Session) MustCreate(ctx context.Context, c *wire.Create) error {
	answers, err := Ask(ctx, s.At, c.Append(nil))
	if err != nil {
		return fmt.Errorf("check: create the market: %w", err)
	}
	for _, a := range answers {
		if a.Kind != "created" {
			return fmt.Errorf("check: create the market: %+v", a)
		}
	}
	return nil
}

const (
	restingAtOnce = 500 // orders in a frame
	restingTicks  = 10_000
)

// FillBooks places n resting orders: sells far above the prices at which clients trade.
func (s *Session) FillBooks(ctx context.Context, n int) error {
	for placed := 0; placed < n; {
		f, account := new(frame), s.accounts[s.Rand.IntN(len(s.accounts))]
		t := wire.NewTransactions(account)
		for range min(restingAtOnce, n-placed) {
			sym := s.Symbols[s.Rand.IntN(len(s.Symbols))]
			limit := 2*priceMiddle + int64(s.Rand.IntN(restingTicks))*priceTick
			o := s.history.order(account, sym, -1, limit)
			f.commands = append(f.commands, command{kind: place, order: o})
			t.Order(o.sym, decimal(o.amount), decimal(o.limit))
			placed++
		}
		answers, err := Ask(ctx, s.At, t.Append(nil))
		if err != nil {
			return fmt.Errorf("check: fill the books: %w", err)
		}
		s.history.recordAnswers(f, answers)
	}
	if wrong := s.Complaints(); len(wrong) > 0 {
		return fmt.Errorf("check: fill the books: %s", wrong[0])
	}
	return nil
}

// NewRound makes the symbol that the round proves linearizable.
func (s *Session) NewRound(ctx context.Context, round int) error {
	s.linear = &linearHistory{sym: fmt.Sprintf("LIN%d", round), start: time.Now(), pace: s.LinearPace}
	c := new(wire.Create)
	s.Deposit(c, s.linear.sym, s.accounts[:linearClients], 1_000_000)
	return s.MustCreate(ctx, c)
}

// Trade starts clients, seeded from seed, and four more for the round's linear symbol. They end when stop is closed,
// or when the exchange has ended and is allowed to.
func (s *Session) Trade(round, clients int, seed uint64, stop <-chan struct{}) *sync.WaitGroup {
	s.history.newRound()
	running, end, at := new(sync.WaitGroup), s.End, s.At
	drawn := func(n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(round*1000+n))) }
	for n := range clients {
		c := &client{r: drawn(n), at: at, session: s, history: s.history, end: end}
		running.Go(func() { c.run(stop) })
	}
	for n := range linearClients {
		r := drawn(900 + n)
		running.Go(func() {
			err := s.linear.trade(n, r, at, s.accounts[n], s.history, stop)
			if err != nil && !end.MayBeGone.Load() {
				s.history.complain("a connection ended although the exchange is up: %v", err)
			}
		})
	}
	return running
}

// CheckAnswers queries every order of the round, and some of earlier rounds that may only be in Postgres.
// CheckTables must be called before.
func (s *Session) CheckAnswers(ctx context.Context) error {
	if len(s.truth.touched) == 0 {
		return errors.New("no order of this round is in the tables")
	}
	var asked []*order
	bulk := 0
	for id := range s.truth.touched {
		o := s.truth.orders[id]
		if s.history.bulk.accounts[o.account] {
			bulk++
			if bulk > bulkAskedMax || len(o.executed) > bulkFillsMax {
				continue
			}
		}
		asked = append(asked, o)
	}
	for range min(oldQueries, len(s.old)) {
		asked = append(asked, s.old[s.Rand.IntN(len(s.old))])
	}
	var frames [][]byte
	for batch := range slices.Chunk(asked, queryBatch) {
		t := wire.NewTransactions(s.accounts[0])
		for _, o := range batch {
			t.Query(fmt.Sprint(o.id))
		}
		frames = append(frames, t.Append(nil))
	}
	replies, err := askAtOnce(ctx, s.At, frames)
	if err != nil {
		return err
	}
	for n, answers := range replies {
		for i, a := range answers {
			o := asked[n*queryBatch+i]
			if want := o.status(); !reflect.DeepEqual(a, want) {
				return fmt.Errorf("order %d is %+v in the tables, but the exchange answers %+v", o.id, want, a)
			}
		}
	}
	s.checked.Answers += int64(len(asked))
	return nil
}

// CheckLinear checks that the round's symbol is linearizable.
func (s *Session) CheckLinear() error {
	ops := s.linear.finish(s.truth.orders, func(o *sentOrder) (uint64, bool) { return o.id, o.id > 0 })
	switch porcupine.CheckOperationsTimeout(linearModel, ops, linearTimeout) {
	case porcupine.Illegal:
		return fmt.Errorf("the %d commands of symbol %s are not linearizable", len(ops), s.linear.sym)
	case porcupine.Unknown:
		return fmt.Errorf("whether the %d commands of symbol %s are linearizable could not be determined within %s",
			len(ops), s.linear.sym, linearTimeout)
	}
	s.checked.LinearOps += int64(len(ops))
	return nil
}

// Forget drops closed and checked orders, except for a sample.
func (s *Session) Forget() {
	for id := range s.truth.touched {
		o := s.truth.orders[id]
		if o.open > 0 {
			continue
		}
		delete(s.truth.orders, id)
		if s.history.bulk.accounts[o.account] {
			continue // it has no serial number
		}
		s.keepOld(s.history.orders[o.serial()])
		delete(s.history.orders, o.serial())
		delete(s.history.ids, id)
		if len(s.old) < oldMax {
			s.old = append(s.old, o)
		} else if at := s.Rand.IntN(20 * oldMax); at < oldMax {
			s.old[at] = o
		}
	}
	clear(s.truth.touched)
}

// keepOld remembers an order with a ref, to send it again in later rounds.
func (s *Session) keepOld(o *sentOrder) {
	switch at := s.Rand.IntN(20 * oldMax); {
	case o == nil || o.ref == "":
	case len(s.oldSent) < oldMax:
		s.oldSent = append(s.oldSent, o)
	case at < oldMax:
		s.oldSent[at] = o
	}
}
