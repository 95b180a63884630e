// Package scenario defines the workloads of load runs: the clients, their frames, and the expected
// replies. Each scenario counts the answers, so that the exchange can be queried afterwards and the
// answers compared: a fast wrong answer is a failed run.
package scenario

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
)

// Params are a scenario's parameters. A scenario uses those that its Uses names.
type Params struct {
	Clients  int           `json:"clients,omitempty"`   // concurrent connections
	Depth    int           `json:"depth,omitempty"`     // unanswered frames on each connection, at most
	Requests int           `json:"requests,omitempty"`  // frames of each client; 0 with a duration
	Duration time.Duration `json:"duration,omitempty"`  // used instead of Requests
	Rate     int           `json:"rate,omitempty"`      // frames a second of all clients; 0 means unlimited
	Symbols  int           `json:"symbols,omitempty"`   // symbols traded
	Accounts int           `json:"accounts,omitempty"`  // accounts opened before the run
	Orders   int           `json:"orders,omitempty"`    // orders resting before the run
	PerFrame int           `json:"per_frame,omitempty"` // commands in each frame
	Pause    time.Duration `json:"pause,omitempty"`     // delay between two requests of a client

	// Conditions for any scenario: the history before the run, and what else is connected or frozen during it.
	History int  `json:"history,omitempty"`         // orders executed before the run
	Idle    int  `json:"idle,omitempty"`            // additional connections that send nothing
	Readers int  `json:"readers,omitempty"`         // readers of the market data stream
	Paused  bool `json:"postgres_paused,omitempty"` // Postgres is frozen during the measurement
	Refs    bool `json:"refs,omitempty"`            // each order of a market has its own ref
}

// Scenario is one workload.
type Scenario struct {
	Name      string
	About     string
	Published string // figure that an earlier system reported, or ""
	Defaults  Params
	Uses      []string // names of the parameters that the scenario uses

	prepare func(ctx context.Context, r *Run) error
	// source makes the source of one client.
	source func(r *Run, client int) load.Source
	// connect is set if each request has its own connection.
	connect bool
	frames  int // consecutive frames that form a request; 0 means 1
}

// Frames returns how many frames a request has: at least 1.
func (s Scenario) Frames() int { return max(s.frames, 1) }

// All returns every scenario, those published by earlier systems first.
func All() []Scenario { return all }

// Find returns the scenario of that name.
func Find(name string) (Scenario, bool) {
	for _, s := range all {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// Run is one run of a scenario against one exchange.
type Run struct {
	Addrs    []string // addresses of one exchange, or of the nodes of a cluster
	Seed     uint64
	Params   Params
	Progress func(load.Progress) // may be nil

	// Accounts of the run have ids above First, and its symbols have names that begin with Tag. Runs
	// against one exchange need different values.
	First int
	Tag   string
	// Any is set for servers other than Outcry: replies may be any XML that conforms to the protocol,
	// numbers stay below 2^31, and How has the server's habits and the client's token. Otherwise only
	// How's token is used.
	Any bool
	How load.Options
	// Open is called instead of load.Open to send the frames of a run at a rate, if not nil.
	Open func(ctx context.Context, o load.Options, rate int, source func(int) load.Source) (*load.Result, error)

	mu      sync.Mutex // guards tallies
	tallies []*Tally
	prices  prices
	weights zipf
	resting []uint64     // ids of the resting orders that Prepare has placed, in order
	opened  atomic.Int64 // accounts made by fresh
}

// Prepare makes the accounts, symbols and orders that the scenario starts with. It is not measured. The
// error says what was rejected or which connection broke.
func (s Scenario) Prepare(ctx context.Context, r *Run) error {
	r.prices = newPrices(max(r.Params.Symbols, 1))
	r.weights = newZipf(max(r.Params.Symbols, 1))
	if s.prepare != nil {
		if err := s.prepare(ctx, r); err != nil {
			return fmt.Errorf("scenario %s: prepare: %w", s.Name, err)
		}
	}
	if r.Params.History > 0 {
		if err := r.makeHistory(ctx); err != nil {
			return fmt.Errorf("scenario %s: history: %w", s.Name, err)
		}
	}
	return nil
}

// Measure runs the scenario. It returns an error if a connection broke.
func (s Scenario) Measure(ctx context.Context, r *Run) (*load.Result, error) {
	p := r.Params
	o := r.options(p.Clients, p.Depth)
	o.Duration, o.Frames, o.Pause = p.Duration, s.frames, p.Pause
	source := func(client int) load.Source { return r.spoken(s.source(r, client)) }
	switch {
	case p.Rate > 0 && r.Open != nil:
		return r.Open(ctx, o, p.Rate, source)
	case p.Rate > 0:
		return load.Open(ctx, o, p.Rate, source)
	case s.connect || r.How.Habits.OneFrame:
		return load.Each(ctx, o, source)
	}
	return load.Closed(ctx, o, source)
}

// options returns the options for a load with the given connections and depth.
func (r *Run) options(connections, depth int) load.Options {
	o := r.How
	o.Addrs, o.Connections, o.Depth, o.Progress = r.Addrs, connections, depth, r.Progress
	return o
}

// spoken adapts s to the server's habits.
func (r *Run) spoken(s load.Source) load.Source {
	if r.How.Habits.AccountAttribute {
		return attribute{s}
	}
	return s
}

// attribute is a source whose frames have the root attribute account instead of id.
type attribute struct{ load.Source }

// Next implements load.Source.
func (a attribute) Next() []byte {
	return bytes.Replace(a.Source.Next(), []byte("<transactions id="), []byte("<transactions account="), 1)
}

// Answers returns the total of all answers to all clients so far, including those to Prepare.
func (r *Run) Answers() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum Tally
	for _, t := range r.tallies {
		sum.Add(t)
	}
	return sum
}

// tally returns a new tally that Answers includes.
func (r *Run) tally() *Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &Tally{any: r.Any}
	r.tallies = append(r.tallies, t)
	return t
}

// random returns one client's random numbers.
func (r *Run) random(client int) *rand.Rand {
	return rand.New(rand.NewPCG(r.Seed, uint64(client)))
}

// limited ends a source after a number of frames; 0 means no limit.
func (r *Run) limited(s load.Source) load.Source {
	if r.Params.Requests == 0 {
		return s
	}
	return &limited{s, r.Params.Requests}
}

type limited struct {
	load.Source
	left int
}

func (l *limited) Next() []byte {
	if l.left == 0 {
		return nil
	}
	l.left--
	return l.Source.Next()
}

// send sends the frames of a preparation over a few connections. It returns an error if anything is
// rejected.
func (r *Run) send(ctx context.Context, frames []prepared) error {
	connections, depth, model := 8, 4, load.Closed
	if r.Any {
		connections, depth = 1, 1 // use no feature that other servers may lack
	}
	if r.How.Habits.OneFrame {
		model = load.Each
	}
	result, err := model(ctx, r.options(connections, depth), func(n int) load.Source {
		f := &fixed{run: r, tally: r.tally()}
		for i := n; i < len(frames); i += connections {
			f.frames = append(f.frames, frames[i])
		}
		return r.spoken(f)
	})
	if err != nil {
		return err
	}
	if result.Errors > 0 {
		return fmt.Errorf("%d frames were refused, for example: %s", result.Errors, result.Examples[0])
	}
	return nil
}

// prepared is a frame of a preparation. Its orders, if any, have the numbers order, order + step and so on among
// the resting orders.
type prepared struct {
	xml         []byte
	order, step int
}

// fixed sends given frames, whose commands must all succeed.
type fixed struct {
	run    *Run
	frames []prepared
	sent   int
	tally  *Tally
}

// Next implements load.Source.
func (f *fixed) Next() []byte {
	if f.sent == len(f.frames) {
		return nil
	}
	f.sent++
	return f.tally.sends(f.frames[f.sent-1].xml)
}

// Reply implements load.Source. It stores the ids of the orders.
func (f *fixed) Reply(xml []byte) error {
	frame := f.frames[f.sent-f.tally.underWay()]
	err := f.tally.addReply(xml, nothingRefused)
	for i, id := range f.tally.opened {
		f.run.resting[frame.order+i*frame.step] = id
	}
	return err
}

const (
	rich      = 1_000_000_000_000 // initial balance of an account, in dollars
	plenty    = 1_000_000_000_000 // initial deposit in each symbol, in shares
	modest    = 1_000_000_000     // used instead of rich and plenty for servers that may use 32 bits
	perCreate = 200               // children of a preparing frame
)

// account returns the id of account n of openMarket, from 1 on.
func (r *Run) account(n int) string { return strconv.Itoa(r.First + n) }

// fresh returns an id for a new account, different each time.
func (r *Run) fresh() string { return r.account(r.Params.Accounts + int(r.opened.Add(1))) }

// symbol returns the name of symbol n, from 0 on.
func (r *Run) symbol(n int) string { return string(r.appendSymbol(nil, n)) }

func (r *Run) appendSymbol(b []byte, n int) []byte {
	return strconv.AppendInt(append(append(b, r.Tag...), "SYM"...), int64(n), 10)
}

// openMarket opens accounts 1 to n with cash and with shares of every symbol.
func openMarket(ctx context.Context, r *Run) error {
	var accounts, symbols []prepared
	riches, shares := strconv.Itoa(rich), strconv.Itoa(plenty)
	if r.Any {
		riches, shares = strconv.Itoa(modest), strconv.Itoa(modest)
	}
	for first := 1; first <= r.Params.Accounts; first += perCreate {
		c := new(wire.Create)
		for id := first; id < first+perCreate && id <= r.Params.Accounts; id++ {
			c.Account(wire.Account{ID: r.account(id), Balance: riches})
		}
		accounts = append(accounts, prepared{xml: c.Append(nil)})
	}
	for s := range r.Params.Symbols {
		for first := 1; first <= r.Params.Accounts; first += perCreate {
			c, placed := new(wire.Create), []wire.Placement(nil)
			for id := first; id < first+perCreate && id <= r.Params.Accounts; id++ {
				placed = append(placed, wire.Placement{Account: r.account(id), Shares: shares})
			}
			symbols = append(symbols, prepared{xml: c.Symbol(r.symbol(s), placed...).Append(nil)})
		}
	}
	if err := r.send(ctx, accounts); err != nil {
		return err
	}
	return r.send(ctx, symbols)
}
