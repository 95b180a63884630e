// Package demo runs a live market to look at and to trade against: bots open accounts on an exchange and
// trade with each other and with everyone else. Market makers quote around a moving fair price, takers
// execute against the quotes, and noise bots trade a little of everything.
//
// The bots act in rounds over one connection, one after the other, and know about their orders only what
// the exchange answers. Their decisions follow from a seed and from those answers; no clock is involved.
// So on a new exchange without other traders, a seed gives the same orders and the same executions in the
// same order each time; only the times differ. With other traders, or after a connection has broken, the
// run is not repeatable.
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
	BotsMax    = 5_000 // bots of all kinds and symbols together
)

const (
	roundsPerSecond = 20
	batchFrames     = 16 // frames sent before their answers are read
	stopTimeout     = 20 * time.Second
	firstPause      = 100 * time.Millisecond // delay before the first attempt to reconnect; it doubles each time
	longestPause    = 5 * time.Second
)

// Options configure a demo. No field has a default: zero means zero or empty.
type Options struct {
	Addr                  string         // address of the exchange
	Client                client.Options // TLS and token of a connection; the demo sets the other fields
	Timeout               time.Duration  // how long an answer may take
	Symbols               []string       // at least one, without duplicates; created if they do not exist
	Seed                  uint64         // seed of the bots' decisions
	Rate                  int            // orders a second of all bots together
	Makers, Takers, Noise int            // bots of each kind, for each symbol
	AccountPrefix         string         // digits that the ids of the bots' accounts begin with
	LeaveOrders           bool           // do not cancel open orders at the end
	// Report gets a line after each connect, one every ReportEvery, and one for each lost connection.
	Report      io.Writer
	ReportEvery time.Duration
}

// Check returns an error that names the first invalid option.
func (o *Options) Check() error {
	bots := len(o.Symbols) * (o.Makers + o.Takers + o.Noise)
	switch {
	case len(o.Symbols) == 0 || len(o.Symbols) > SymbolsMax:
		return fmt.Errorf("%d symbols: a demo accepts 1 to %d", len(o.Symbols), SymbolsMax)
	case o.Makers < 0 || o.Takers < 0 || o.Noise < 0 || bots < 1 || bots > BotsMax:
		return fmt.Errorf("%d makers, %d takers and %d noise bots for each of %d symbols: a demo accepts 1 to %d bots in all",
			o.Makers, o.Takers, o.Noise, len(o.Symbols), BotsMax)
	case o.Rate < 1 || o.Rate > RateMax:
		return fmt.Errorf("a rate of %d orders a second: a demo accepts 1 to %d", o.Rate, RateMax)
	case o.Timeout <= 0:
		return fmt.Errorf("a timeout of %v: it must be more than 0", o.Timeout)
	case o.ReportEvery <= 0:
		return fmt.Errorf("a report every %v: it must be more than 0", o.ReportEvery)
	}
	seen := map[string]bool{}
	for _, sym := range o.Symbols {
		if _, err := exchange.ParseSymbol(sym); err != nil {
			return err
		}
		if seen[sym] {
			return fmt.Errorf("symbol %s is given twice", sym)
		}
		seen[sym] = true
	}
	if _, err := exchange.ParseAccountID(o.AccountPrefix + fmt.Sprint(bots)); err != nil {
		return fmt.Errorf("with the prefix %q: %w", o.AccountPrefix, err)
	}
	return nil
}

// Summary is the outcome of a demo.
type Summary struct {
	Orders  int // orders accepted
	Refused int // orders rejected
	Trades  int // executions of the bots' sell orders
	Left    int // orders that are still open, as far as the bots know
}

// Run runs a demo until ctx ends, cancels the bots' open orders unless LeaveOrders is set, and returns a
// summary. If the exchange goes away, Run reconnects, with delays that grow to 5 seconds. It returns an
// error if Check fails, if the first connection fails, if an answer violates the protocol, or if the
// orders could not be canceled at the end; orders may then still be open. Two demos must not use the same
// accounts at the same time.
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

// run is a running demo.
type run struct {
	options Options
	market  *market
	link    *link
	placed  bool // the shares have been deposited
	credit  float64
}

// trade lets the bots trade until ctx ends, through reconnects, and then cancels the open orders.
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

// round moves the fair prices and lets bots act.
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

// exchange sends the bots' frames and gives each bot its answers. On an error, the bots without answers
// record them as lost.
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
		b.processAnswers(answers)
	}
	return err
}

// report writes a progress line. before is the number of orders at the previous line.
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
