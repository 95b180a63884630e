// Package measure measures how fast a server of the protocol answers orders, as outcry-lab bench run does.
//
// An exchange with refs is measured by load.Trade (refs.go). Any other server is measured without refs, alone or
// beside an Outcry and an echo server (plain.go): row.go has the result of each server, experiment.go the workloads of
// earlier systems, and own.go starts the Outcry.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	api "outcry/clients/go/client"
	"outcry/internal/lab/dialect"
	"outcry/internal/lab/load"
)

// Bounds of a run's options.
const (
	durationMax    = time.Hour
	connectionsMax = 1000
	depthMax       = 1000
	rateMax        = 1_000_000
	symbolsMax     = 1000
	roundsMax      = 100
)

// Options configure a run. Check rejects invalid ones.
type Options struct {
	load.Trading     // Addr, Client and Run are set by Run
	Addrs            []string
	Client           api.Options // options of the connections to the exchange
	NoRefs, Beside   bool
	DepthGiven       bool           // the user chose a depth; otherwise a run without refs has depth 1
	ConnectionsGiven bool           // the user chose a number; otherwise an experiment uses the published one
	Known            *dialect.Known // habits from a profile, which are not probed; nil without a profile
	Rounds           int            // turns of each server with Beside
	Program          string         // path of the outcryd to measure beside the server; "" means to find one
	Experiment       string         // name of the experiment; "" to place orders
	Requests         int            // requests of each connection in an experiment; 0 for the published number
	JSON             bool           // print the result as JSON
	Out              io.Writer      // gets the result
	Stderr           io.Writer      // gets the progress
}

// ErrWrong means that a server lost, doubled, refused or did not answer an order, and that the printed result says
// so.
var ErrWrong = errors.New("a server handled an order wrongly")

// Check returns an error that names the flag of the first invalid value.
func (o *Options) Check() error {
	for _, n := range []struct {
		name              string
		value, least, top int
	}{
		{"connections", o.Connections, 1, connectionsMax}, {"depth", o.Depth, 1, depthMax},
		{"rate", o.Rate, 0, rateMax}, {"orders", o.Orders, 1, load.OrdersMax},
		{"symbols", o.Symbols, 1, symbolsMax}, {"rounds", o.Rounds, 1, roundsMax},
	} {
		if n.value < n.least || n.value > n.top {
			return fmt.Errorf("--%s %d: must be from %d to %d", n.name, n.value, n.least, n.top)
		}
	}
	if o.Experiment != "" {
		if err := o.checkExperiment(); err != nil {
			return err
		}
	}
	if o.Duration <= 0 || o.Duration > durationMax {
		return fmt.Errorf("--duration %s: must be more than 0, and at most %s", o.Duration, durationMax)
	}
	if o.Accounts == "" || strings.Trim(o.Accounts, "0123456789") != "" || len(o.Accounts) > 50 {
		return fmt.Errorf("--accounts %.60q: must be 1 to 50 digits", o.Accounts)
	}
	return nil
}

// Run measures the server and prints the result. The error is ErrWrong, ctx's, or says why there is no result.
func Run(ctx context.Context, o Options) error {
	o.Client.Log = slog.New(slog.DiscardHandler) // the result counts broken connections
	p := &comparison{Options: &o, first: firstAccount(time.Now())}
	if o.Experiment != "" {
		p.first = firstOfExperiment(time.Now())
	}
	plain, err := p.find(ctx)
	if err != nil {
		return err
	}
	if plain {
		return p.run(ctx)
	}
	return o.runRefs(ctx)
}
