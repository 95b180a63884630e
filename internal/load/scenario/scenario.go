// Package scenario holds the workloads of load runs: who sends what, how often,
// and what has to come of it. Each counts what it was told, so that the exchange
// can be asked afterwards whether it agrees: a fast wrong answer is a failed run.
package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"outcry/internal/load"
	"outcry/internal/wire"
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
	// connect says that each frame has a connection of its own.
	connect bool
}

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
	// Open sends the frames of a run at a rate; nil for load.Open.
	Open func(ctx context.Context, o load.Options, rate int, source func(int) load.Source) (*load.Result, error)

	mu      sync.Mutex // guards tallies
	tallies []*Tally
	prices  prices
	weights zipf
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
	o := load.Options{Addrs: r.Addrs, Connections: p.Clients, Depth: p.Depth, Duration: p.Duration, Progress: r.Progress}
	source := func(client int) load.Source { return s.source(r, client) }
	switch {
	case p.Rate > 0 && r.Open != nil:
		return r.Open(ctx, o, p.Rate, source)
	case p.Rate > 0:
		return load.Open(ctx, o, p.Rate, source)
	case s.connect:
		return load.Each(ctx, o, source)
	}
	return load.Closed(ctx, o, source)
}

// Told returns what all clients together have been told so far, Prepare's included.
func (r *Run) Told() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum Tally
	for _, t := range r.tallies {
		sum.add(t)
	}
	return sum
}

// tally returns a new tally that Told counts.
func (r *Run) tally() *Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := new(Tally)
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
func (r *Run) send(ctx context.Context, frames [][]byte) error {
	const connections = 8
	result, err := load.Closed(ctx, load.Options{Addrs: r.Addrs, Connections: connections, Depth: 4, Progress: r.Progress},
		func(n int) load.Source {
			f := &fixed{tally: r.tally()}
			for i := n; i < len(frames); i += connections {
				f.frames = append(f.frames, frames[i])
			}
			return f
		})
	if err != nil {
		return err
	}
	if result.Errors > 0 {
		return fmt.Errorf("%d frames were refused, for example: %s", result.Errors, result.Examples[0])
	}
	return nil
}

// fixed sends given frames, of which nothing may be refused.
type fixed struct {
	frames [][]byte
	tally  *Tally
}

func (f *fixed) Next() []byte {
	if len(f.frames) == 0 {
		return nil
	}
	xml := f.frames[0]
	f.frames = f.frames[1:]
	return f.tally.sends(xml)
}

func (f *fixed) Reply(xml []byte) error { return f.tally.take(xml, nothingRefused) }

const (
	rich      = "1000000000000" // dollars that an account begins with
	plenty    = "1000000000000" // shares of each symbol that it begins with
	perCreate = 200             // children of a frame that prepares
)

func symbolName(n int) string { return string(appendSymbolName(nil, n)) }

func appendSymbolName(b []byte, n int) []byte {
	return strconv.AppendInt(append(b, "SYM"...), int64(n), 10)
}

// openMarket opens accounts 1 to n with money and with shares of every symbol.
func openMarket(ctx context.Context, r *Run) error {
	var accounts, symbols [][]byte
	for first := 1; first <= r.Params.Accounts; first += perCreate {
		c := new(wire.Create)
		for id := first; id < first+perCreate && id <= r.Params.Accounts; id++ {
			c.Account(wire.Account{ID: fmt.Sprint(id), Balance: rich})
		}
		accounts = append(accounts, c.Append(nil))
	}
	for s := range r.Params.Symbols {
		for first := 1; first <= r.Params.Accounts; first += perCreate {
			c, placed := new(wire.Create), []wire.Placement(nil)
			for id := first; id < first+perCreate && id <= r.Params.Accounts; id++ {
				placed = append(placed, wire.Placement{Account: fmt.Sprint(id), Shares: plenty})
			}
			symbols = append(symbols, c.Symbol(symbolName(s), placed...).Append(nil))
		}
	}
	if err := r.send(ctx, accounts); err != nil {
		return err
	}
	return r.send(ctx, symbols)
}
