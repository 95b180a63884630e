// Package scenario holds the workloads of load runs: who sends what, how often,
// and what has to come of it. Each counts what it was told, so that the exchange
// can be asked afterwards whether it agrees: a fast wrong answer is a failed run.
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

// Params are what a scenario can be told. Each has the fields that its Uses names.
type Params struct {
	Clients  int           `json:"clients,omitempty"`   // connections at once
	Depth    int           `json:"depth,omitempty"`     // frames under way on each connection
	Requests int           `json:"requests,omitempty"`  // frames of each client; 0 with a duration
	Duration time.Duration `json:"duration,omitempty"`  // instead of a number of requests
	Rate     int           `json:"rate,omitempty"`      // frames a second of all clients together; 0: as many as possible
	Symbols  int           `json:"symbols,omitempty"`   // that are traded
	Accounts int           `json:"accounts,omitempty"`  // that are opened beforehand
	Orders   int           `json:"orders,omitempty"`    // that rest beforehand
	PerFrame int           `json:"per_frame,omitempty"` // commands of each frame
	Pause    time.Duration `json:"pause,omitempty"`     // between a request of a client and its next one

	// What was before any scenario, and goes on around it.
	History int  `json:"history,omitempty"`         // orders that were executed beforehand
	Idle    int  `json:"idle,omitempty"`            // further connections, which send nothing
	Readers int  `json:"readers,omitempty"`         // of the market data stream
	Paused  bool `json:"postgres_paused,omitempty"` // Postgres stands still while the scenario is measured
	Refs    bool `json:"refs,omitempty"`            // each order of a market has a ref of its own
}

// Scenario is one workload.
type Scenario struct {
	Name      string
	About     string
	Published string // what an earlier system reported for it; "" if none did
	Defaults  Params
	Uses      []string // the names of the parameters that matter

	prepare func(ctx context.Context, r *Run) error
	// source makes what one client sends.
	source func(r *Run, client int) load.Source
	// connect says that each request has a connection of its own.
	connect bool
	frames  int // of a request, one after another; 0 is 1
}

// Frames returns how many frames a request has: at least 1.
func (s Scenario) Frames() int { return max(s.frames, 1) }

// All returns every scenario, those that earlier systems published first.
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
	Addrs    []string // of one exchange, or of several that are one
	Seed     uint64
	Params   Params
	Progress func(load.Progress) // may be nil

	// Of the run's accounts, ids are above First, and the names of its symbols begin with Tag: runs against
	// one exchange have different ones.
	First int
	Tag   string
	// Any is for servers that are no Outcry: replies are read as a student's program may write them, numbers stay
	// below 2^31, and How has the server's habits and the client's token. Else only How's token counts.
	Any bool
	How load.Options
	// Open sends the frames of a run at a rate; nil for load.Open.
	Open func(ctx context.Context, o load.Options, rate int, source func(int) load.Source) (*load.Result, error)

	mu      sync.Mutex // guards tallies
	tallies []*Tally
	prices  prices
	weights zipf
	resting []uint64     // ids of the orders that Prepare has let rest, in their order
	opened  atomic.Int64 // accounts by fresh
}

// Prepare makes the accounts, symbols and orders that the scenario begins with. It
// is not measured. The error says what was refused or broke.
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

// Measure runs the scenario. The error says why a connection broke.
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

// options returns those of a load on the server.
func (r *Run) options(connections, depth int) load.Options {
	o := r.How
	o.Addrs, o.Connections, o.Depth, o.Progress = r.Addrs, connections, depth, r.Progress
	return o
}

// spoken returns s in the server's habits.
func (r *Run) spoken(s load.Source) load.Source {
	if r.How.Habits.AccountAttribute {
		return attribute{s}
	}
	return s
}

// attribute sends frames whose root has the attribute account instead of id.
type attribute struct{ load.Source }

// Next implements load.Source.
func (a attribute) Next() []byte {
	return bytes.Replace(a.Source.Next(), []byte("<transactions id="), []byte("<transactions account="), 1)
}

// Told returns what all clients together have been told so far, Prepare's included.
func (r *Run) Told() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum Tally
	for _, t := range r.tallies {
		sum.Add(t)
	}
	return sum
}

// tally returns a new tally that Told counts.
func (r *Run) tally() *Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &Tally{any: r.Any}
	r.tallies = append(r.tallies, t)
	return t
}

// random returns what one client draws from.
func (r *Run) random(client int) *rand.Rand {
	return rand.New(rand.NewPCG(r.Seed, uint64(client)))
}

// limited ends a source after so many frames; 0 is no limit.
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

// send sends the frames of a preparation over a few connections and demands that
// nothing is refused.
func (r *Run) send(ctx context.Context, frames []prepared) error {
	connections, depth, model := 8, 4, load.Closed
	if r.Any {
		connections, depth = 1, 1 // what a server cannot do is to be seen in what is measured
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

// prepared is a frame of a preparation. If it has orders, they are number order, order + step and so on of
// those that rest.
type prepared struct {
	xml         []byte
	order, step int
}

// fixed sends given frames, of which nothing may be refused.
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

// Reply implements load.Source. It keeps the ids of orders.
func (f *fixed) Reply(xml []byte) error {
	frame := f.frames[f.sent-f.tally.underWay()]
	err := f.tally.take(xml, nothingRefused)
	for i, id := range f.tally.opened {
		f.run.resting[frame.order+i*frame.step] = id
	}
	return err
}

const (
	rich      = 1_000_000_000_000 // dollars that an account begins with
	plenty    = 1_000_000_000_000 // shares of each symbol that it begins with
	modest    = 1_000_000_000     // both, of a server that may have 32 bits
	perCreate = 200               // children of a frame that prepares
)

// account returns the id of one of the accounts that openMarket opens, from 1 on.
func (r *Run) account(n int) string { return strconv.Itoa(r.First + n) }

// fresh returns the id of an account that is to be opened: no other has it.
func (r *Run) fresh() string { return r.account(r.Params.Accounts + int(r.opened.Add(1))) }

// symbol returns the name of one of the symbols, from 0 on.
func (r *Run) symbol(n int) string { return string(r.appendSymbol(nil, n)) }

func (r *Run) appendSymbol(b []byte, n int) []byte {
	return strconv.AppendInt(append(append(b, r.Tag...), "SYM"...), int64(n), 10)
}

// openMarket opens accounts 1 to n with money and with shares of every symbol.
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
