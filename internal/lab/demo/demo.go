// Package demo is a living market for people to look at and to trade against: bots
// that open accounts on an exchange and trade with each other and with anyone else who
// is there. Market makers quote around a fair price that moves, takers take what
// they quote, and noise trades a little of everything.
//
// The bots act in rounds over one connection, one after the other, and know of their
// orders what the exchange answers. What they decide follows from a seed and from
// those answers; no clock is part of it. So on a new exchange if nobody else
// trades, a seed gives the same orders and the same executions, in the same order,
// each time; only their times differ. With other traders, or after a connection has
// broken, it does not.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"outcry/clients/go/client"
	"outcry/internal/exchange"
)

// Limits of a demo.
const (
	RateMax    = 10_000 // orders a second
	SymbolsMax = 1_000
	BotsMax    = 5_000 // of all kinds and symbols together
)

const (
	roundsPerSecond = 20
	batchFrames     = 16 // frames that are sent before their answers are read
	stopTimeout     = 20 * time.Second
	firstPause      = 100 * time.Millisecond // before the first try to connect again; doubled each time
	longestPause    = 5 * time.Second
)

// Options say what to run. The zero value of a field is none, not a default.
type Options struct {
	Addr                  string         // address of the exchange
	Client                client.Options // TLS and token of a connection; the rest is the demo's own
	Timeout               time.Duration  // how long an answer may take
	Symbols               []string       // at least one, each once; made if they are new
	Seed                  uint64         // what the bots decide follows from it
	Rate                  int            // orders a second, of all bots together
	Makers, Takers, Noise int            // bots of each kind, for each symbol
	AccountPrefix         string         // digits that the ids of the bots' accounts begin with
	LeaveOrders           bool           // leave open what is open at the end
	// a line once connected, one every ReportEvery, and one for each connection that is lost
	Report      io.Writer
	ReportEvery time.Duration
}

// Check returns an error that names the first value with which there can be no demo.
func (o *Options) Check() error {
	bots := len(o.Symbols) * (o.Makers + o.Takers + o.Noise)
	switch {
	case len(o.Symbols) == 0 || len(o.Symbols) > SymbolsMax:
		return fmt.Errorf("%d symbols: a demo takes 1 to %d", len(o.Symbols), SymbolsMax)
	case o.Makers < 0 || o.Takers < 0 || o.Noise < 0 || bots < 1 || bots > BotsMax:
		return fmt.Errorf("%d makers, %d takers and %d noise bots for each of %d symbols: a demo takes 1 to %d bots in all",
			o.Makers, o.Takers, o.Noise, len(o.Symbols), BotsMax)
	case o.Rate < 1 || o.Rate > RateMax:
		return fmt.Errorf("a rate of %d orders a second: a demo takes 1 to %d", o.Rate, RateMax)
	case o.Timeout <= 0:
		return fmt.Errorf("a timeout of %v is not more than 0", o.Timeout)
	case o.ReportEvery <= 0:
		return fmt.Errorf("a report every %v: it must be more than 0", o.ReportEvery)
	}
	seen := map[string]bool{}
	for _, sym := range o.Symbols {
		if _, err := exchange.ParseSymbol(sym); err != nil {
			return err
		}
		if seen[sym] {
			return fmt.Errorf("symbol %s is there twice", sym)
		}
		seen[sym] = true
	}
	if _, err := exchange.ParseAccountID(o.AccountPrefix + fmt.Sprint(bots)); err != nil {
		return fmt.Errorf("with the prefix %q: %w", o.AccountPrefix, err)
	}
	return nil
}

// Summary is what a demo has come to.
type Summary struct {
	Orders  int // accepted
	Refused int // orders refused
	Trades  int // executions of the bots' orders to sell
	Left    int // orders that are open still, as far as the bots know
}

// Run runs a demo until ctx ends, cancels what the bots have open, and returns what
// it came to. If the exchange goes away, it connects again, with pauses that grow
// to 5 seconds. The error is that of the first connection, one of Check, an answer
// that no exchange gives, or that the exchange was away when the orders were to be
// canceled; orders may be open then. One demo for a set of accounts at a time.
func Run(ctx context.Context, o Options) (Summary, error) {
	if err := o.Check(); err != nil {
		return Summary{}, fmt.Errorf("demo: %w", err)
	}
	r := &run{options: o, market: newMarket(o)}
	err := r.connect(ctx)
	if err == nil {
		fmt.Fprintf(o.Report, "%d bots for each of %d symbols trade on %s with seed %d\n", o.Makers+o.Takers+o.Noise,
			len(o.Symbols), o.Addr, o.Seed)
		err = r.trade(ctx)
	}
	if r.link != nil {
		r.link.close()
	}
	s := Summary{Orders: r.market.opened, Refused: r.market.refused, Trades: r.market.executed, Left: r.market.open()}
	if err != nil {
		return s, fmt.Errorf("demo: %w", err)
	}
	return s, nil
}

// run is one demo under way.
type run struct {
	options Options
	market  *market
	link    *link
	placed  bool // shares have been placed
	credit  float64
}

// trade has the bots trade until ctx ends, whatever happens to the connection, and
// then cancels what is open.
func (r *run) trade(ctx context.Context) error {
	report := time.NewTicker(r.options.ReportEvery)
	defer report.Stop()
	round := time.NewTicker(time.Second / roundsPerSecond)
	defer round.Stop()
	last := r.market.opened
	for {
		select {
		case <-ctx.Done():
			return r.stop()
		case <-report.C:
			r.report(last)
			last = r.market.opened
		case <-round.C:
			err := r.round()
			if errors.As(err, new(*lostError)) {
				err = r.reconnect(ctx, err)
			}
			if err != nil {
				return err
			}
		}
	}
}

// round has fair prices move and bots act.
func (r *run) round() error {
	r.market.step()
	r.credit = min(r.credit, 0) + float64(r.options.Rate)/roundsPerSecond
	var batch []*bot
	var frames [][]byte
	for r.credit > 0 {
		b := r.market.draw()
		if len(batch) == batchFrames || len(b.asked) > 0 {
			if err := r.exchange(batch, frames); err != nil {
				return err
			}
			batch, frames = batch[:0], frames[:0]
		}
		frame, placed := b.act()
		r.credit -= float64(max(placed, 1))
		if len(b.asked) > 0 {
			batch, frames = append(batch, b), append(frames, frame)
		}
	}
	return r.exchange(batch, frames)
}

// exchange sends the frames of bots and hands each the answers to its own. On an
// error, those without answers know that theirs are lost.
func (r *run) exchange(bots []*bot, frames [][]byte) error {
	err := r.link.send(frames)
	for _, b := range bots {
		if err == nil {
			err = r.receive(b)
		}
		if err != nil {
			b.lost()
		}
	}
	return err
}

func (r *run) receive(b *bot) error {
	answers, err := r.link.receive(len(b.asked))
	if err == nil {
		b.told(answers)
	}
	return err
}

// report writes a line. before is how many orders there were at the last one.
func (r *run) report(before int) {
	m := r.market
	rate := float64(m.opened-before) / r.options.ReportEvery.Seconds()
	line := fmt.Sprintf("%d orders (%.0f/s)  %d trades  %d open", m.opened, rate, m.executed, m.open())
	if m.refused > 0 {
		line += fmt.Sprintf("  %d refused: %s", m.refused, m.why)
	}
	const shown = 5
	for i, f := range m.symbols {
		if i == shown {
			line += fmt.Sprintf("  and %d more", len(m.symbols)-shown)
			break
		}
		line += "  " + f.describe()
	}
	fmt.Fprintln(r.options.Report, line)
}
