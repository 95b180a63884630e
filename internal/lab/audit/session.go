// Package audit tries an exchange at an address and proves that everything that was
// answered is there, that nothing happened twice, that nothing exists that was never
// sent, and that cash and shares add up to the last fraction.
//
// A Session is a sequence of rounds. In each, clients trade at random (client.go), while
// somebody else may break the exchange. Then up to three views of it are held against
// each other: what the clients sent and were told (history.go, match.go, retry.go), what
// the tables of its Postgres hold, done again order by order by a book of its own
// (tables.go, truth.go, money.go), and what the exchange answers now (session.go). One
// symbol of each round is proved linearizable with porcupine (linear.go).
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

	// AccountsOpened is how many accounts OpenMarket makes.
	AccountsOpened = accountCount + poorCount
	// SymbolsOpened is how many symbols it makes.
	SymbolsOpened = symbolCount

	linearClients = 4
	linearTimeout = 60 * time.Second

	oldMax     = 2000 // closed orders of earlier rounds that are remembered
	oldQueries = 100  // of which so many are asked for in each round
	queryBatch = 50   // queries in a frame
	askersMax  = 4    // connections that send them at once: Outcry asks Postgres over as many

	// Of the bulk orders of a round so many are asked for, if they have no more executions than that.
	bulkAskedMax = 1000
	bulkFillsMax = 1000
)

// Session is what is known of one exchange. Its methods are for one goroutine, except
// those whose comment says that any may call them.
type Session struct {
	At        Target     // may change between rounds, and while clients connect again at the same address
	Rand      *rand.Rand // of everything that is not a client's
	End       *Ending    // of the server that runs
	Symbols   []string   // that clients trade, after OpenMarket
	NoCreates bool       // clients open no accounts: they run out
	// LinearPace is the longest pause before a command for the linear symbol, so that its
	// commands spread over a fault.
	LinearPace time.Duration

	accounts []string // with money and shares for everything
	poor     []string // that live from hand to mouth: what they spend, they have just earned
	history  *history
	truth    *truth
	linear   *linearHistory
	old      []*order     // a sample of closed orders of earlier rounds
	oldSent  []*sentOrder // another one, of those that have a ref
	checked  Checked
}

// Checked says how much was compared so far.
type Checked struct {
	Executions int64 `json:"executions_checked"`
	Cancels    int64 `json:"cancels_checked"`
	Orders     int64 `json:"orders_checked"`  // done again from the tables, one by one
	Answers    int64 `json:"answers_checked"` // of queries, with the tables
	LinearOps  int64 `json:"commands_proved_linearizable"`
	Accounts   int   `json:"accounts_checked"`
}

// Add adds what was compared with another exchange.
func (c *Checked) Add(more Checked) {
	c.Executions += more.Executions
	c.Cancels += more.Cancels
	c.Orders += more.Orders
	c.Answers += more.Answers
	c.LinearOps += more.LinearOps
	c.Accounts += more.Accounts
}

// NewSession returns one with an exchange in which nothing has happened yet. Orders of
// the bulk accounts have no serial numbers: see BulkSent.
func NewSession(at Target, r *rand.Rand, bulk ...string) *Session {
	return &Session{At: at, Rand: r, End: new(Ending), history: newHistory(bulk), truth: newTruth()}
}

// Checked returns how much was compared so far.
func (s *Session) Checked() Checked {
	c := s.checked
	c.Orders, c.Executions, c.Cancels = s.truth.accepted, s.truth.fills, s.truth.cancels
	c.Accounts = len(s.truth.cash)
	return c
}

// OpenMarket opens the accounts and symbols that clients trade, before anything else.
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

// Account adds an account with whole dollars to a frame that is accepted.
func (s *Session) Account(c *wire.Create, id string, dollars int64) {
	c.Account(wire.Account{ID: id, Balance: fmt.Sprint(dollars)})
	s.Opened(id, dollars)
}

// Opened takes in that the exchange has an account that was opened with whole dollars.
func (s *Session) Opened(id string, dollars int64) {
	s.truth.openAccount(id, new(big.Int).Mul(product(dollars, unit), big.NewInt(unit)))
}

// Deposit adds whole shares of a symbol for each account to a frame that is accepted.
func (s *Session) Deposit(c *wire.Create, sym string, accounts []string, shares int64) {
	var all []wire.Placement
	for _, id := range accounts {
		all = append(all, wire.Placement{Account: id, Shares: fmt.Sprint(shares)})
		s.truth.placeShares(sym, id, product(shares, unit))
	}
	c.Symbol(sym, all...)
}

// MustCreate sends a frame of which nothing may be refused.
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

// FillBooks places n orders that rest: sells, far above where clients trade.
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
		s.history.note(f, answers)
	}
	if wrong := s.Complaints(); len(wrong) > 0 {
		return fmt.Errorf("check: fill the books: %s", wrong[0])
	}
	return nil
}

// NewRound makes the symbol of a round that is proved linearizable.
func (s *Session) NewRound(ctx context.Context, round int) error {
	s.linear = &linearHistory{sym: fmt.Sprintf("LIN%d", round), start: time.Now(), pace: s.LinearPace}
	c := new(wire.Create)
	s.Deposit(c, s.linear.sym, s.accounts[:linearClients], 1_000_000)
	return s.MustCreate(ctx, c)
}

// Trade starts clients, which draw from the seed, and four more of the round's symbol.
// They end when stop is closed, or the exchange is gone and may be.
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

// CheckAnswers asks the exchange for every order of the round, and for some of
// earlier rounds, which it may know from Postgres only. CheckTables comes before.
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
				return fmt.Errorf("order %d is %+v in the tables, and the exchange answers %+v", o.id, want, a)
			}
		}
	}
	s.checked.Answers += int64(len(asked))
	return nil
}

// CheckLinear proves the round's symbol linearizable.
func (s *Session) CheckLinear() error {
	ops := s.linear.finish(s.truth.orders, func(o *sentOrder) (uint64, bool) { return o.id, o.id > 0 })
	switch porcupine.CheckOperationsTimeout(linearModel, ops, linearTimeout) {
	case porcupine.Illegal:
		return fmt.Errorf("the %d commands of symbol %s are not linearizable", len(ops), s.linear.sym)
	case porcupine.Unknown:
		return fmt.Errorf("whether the %d commands of symbol %s are linearizable was not found out within %s",
			len(ops), s.linear.sym, linearTimeout)
	}
	s.checked.LinearOps += int64(len(ops))
	return nil
}

// Forget drops what is closed and checked, except for a sample.
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

// keepOld remembers an order that is sent again in later rounds, if it has a ref.
func (s *Session) keepOld(o *sentOrder) {
	switch at := s.Rand.IntN(20 * oldMax); {
	case o == nil || o.ref == "":
	case len(s.oldSent) < oldMax:
		s.oldSent = append(s.oldSent, o)
	case at < oldMax:
		s.oldSent[at] = o
	}
}
