// Package throughput measures how many orders a second a server answers, as a share of what an echo server
// on the same host answers under the same load. Such a share can be compared between machines.
package throughput

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/load"
)

// Options configure a measurement.
type Options struct {
	Addr        string         // host and port
	Habits      dialect.Habits // the server's habits
	Salt        string         // digits that no other run against this server used
	Connections int            // concurrent connections with one order in flight each; 0 means ConnectionsUsual
	Duration    time.Duration  // length of each of the three runs; 0 means DurationUsual
}

// Defaults and maxima of Options.
const (
	ConnectionsUsual = 8
	ConnectionsMax   = 1000
	DurationUsual    = 5 * time.Second
	DurationMax      = time.Minute
)

// Bounds of a measurement.
const (
	symbols         = 4
	ordersMax       = 4_000_000
	setupTime       = 10 * time.Second // time limit for opening the accounts
	replyTime       = 5 * time.Second  // time limit for the last replies after a run
	repliesBytesMax = 64 << 20         // bytes of the replies held at once, over all connections
	askTime         = 5 * time.Second  // time limit for querying orders afterwards
	firstOfAll      = 2_000_000_000    // lowest account id; ids stay below 2^31, and above those of cases
	salts           = 50_000           // different salts; each has its own accounts
	askedMin        = 50               // queried orders that the server must report, at least
	usualReply      = 80               // bytes of an echoed reply while the server's own size is unknown
)

// Result is the outcome of a measurement.
type Result struct {
	Rate     float64       // orders a second that the server accepted
	Echo     float64       // replies a second of the echo server
	Share    float64       // Rate ÷ Echo
	Requests uint64        // orders that the server answered
	Errors   uint64        // those of Requests whose reply accepts no order
	Asked    uint64        // accepted orders that were queried afterwards
	Wrong    uint64        // those of Asked that the server lost, executed twice or changed
	P50, P99 time.Duration // time from an order to its reply
}

// Step gives Points to a server that reaches Share of the echo server's rate.
type Step struct{ Share, Points float64 }

// Measure opens accounts on the server, trades between them, and queries the orders. It sends the same load to an
// echo server before and after that, and uses the better of these two rates: a server that keeps the processors
// busy must not gain by it. Measure lasts three times the duration and at most half a minute more. The error names
// an invalid option, or says that the server stopped answering, or reported too few of its orders when they were
// queried.
func Measure(ctx context.Context, o Options) (*Result, error) {
	p, err := o.plain()
	if err != nil {
		return nil, err
	}
	if err := within(ctx, setupTime, p.Prepare); err != nil {
		return nil, fmt.Errorf("throughput: %w", err)
	}
	before, err := measureEcho(ctx, p, usualReply)
	if err != nil {
		return nil, err
	}
	var served *load.Result
	err = within(ctx, p.Duration+replyTime, func(ctx context.Context) (err error) {
		served, err = p.Run(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("throughput: %w", err)
	}
	r := &Result{Requests: served.Requests, Errors: served.Errors,
		Rate: float64(served.Requests-served.Errors) / served.Elapsed.Seconds(),
		P50:  served.Quantile(0.5), P99: served.Quantile(0.99)}
	if r.Requests == 0 {
		return nil, errNothing
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	checked, err := p.Check(asking)
	if r.Asked, r.Wrong = checked.Asked, checked.Lost+checked.Wrong+checked.Doubled; err != nil && asking.Err() == nil {
		return nil, fmt.Errorf("throughput: %w", err)
	}
	if checked.Asked < min(checked.Opened, askedMin) {
		return nil, fmt.Errorf("throughput: the server answered queries of %d of %d orders afterwards: %d are needed",
			checked.Asked, checked.Opened, min(checked.Opened, askedMin))
	}
	after, err := measureEcho(ctx, p, int(served.BytesIn/served.Requests))
	if err != nil {
		return nil, err
	}
	if after.Rate() < before.Rate() {
		after = before
	}
	if err := r.compare(after); err != nil {
		return nil, err
	}
	return r, nil
}

// measureEcho measures an echo server on this machine with replies of replyBytes bytes.
func measureEcho(ctx context.Context, p *load.Plain, replyBytes int) (echoed *load.Result, err error) {
	err = within(ctx, p.Duration+replyTime, func(ctx context.Context) (err error) {
		echoed, err = echo(ctx, p, replyBytes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("throughput: echo: %w", err)
	}
	return echoed, nil
}

// Errors of a measurement without any reply, which has no rate.
var (
	errNothing     = errors.New("throughput: the server answered nothing")
	errEchoNothing = errors.New("throughput: the echo server answered nothing in time: this machine is too busy")
)

// compare sets Echo and Share. The error says that the echo server answered nothing.
func (r *Result) compare(echoed *load.Result) error {
	if echoed.Requests == 0 {
		return errEchoNothing
	}
	r.Echo = echoed.Rate()
	r.Share = r.Rate / r.Echo
	return nil
}

// plain returns the load that o describes. The error names an invalid option.
func (o Options) plain() (*load.Plain, error) {
	if o.Connections == 0 {
		o.Connections = ConnectionsUsual
	}
	if o.Duration == 0 {
		o.Duration = DurationUsual
	}
	n, err := strconv.ParseUint(o.Salt, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("throughput: salt %q is not a number", o.Salt)
	case o.Connections < 1 || o.Connections > ConnectionsMax:
		return nil, fmt.Errorf("throughput: %d connections: must be from 1 to %d", o.Connections, ConnectionsMax)
	case o.Duration < 0 || o.Duration > DurationMax:
		return nil, fmt.Errorf("throughput: %s: must be at most %s", o.Duration, DurationMax)
	}
	return &load.Plain{
		Options: load.Options{Addrs: []string{o.Addr}, Connections: o.Connections, Depth: 1, Duration: o.Duration,
			Habits: o.Habits, ReplyBytesMax: repliesBytesMax / o.Connections},
		Symbols: symbols, Orders: ordersMax, First: firstOfAll + n%salts*2*ConnectionsMax, Tag: fmt.Sprintf("L%dS", n%salts),
	}, nil
}

// within runs a step with a time limit.
func within(ctx context.Context, d time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("not done within %s", d))
	defer cancel()
	return step(ctx)
}

// echo sends the load to an echo server whose replies have replyBytes bytes. The server runs in this
// process; the load generator's own cost is the same for both servers.
func echo(ctx context.Context, p *load.Plain, replyBytes int) (*load.Result, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- load.Echo(l, replyBytes, nil) }()
	r, err := p.Blank(ctx, l.Addr().String())
	l.Close()
	<-ended // its error is only that the listener was closed
	return r, err
}

// Outcome grades what Measure returned. The share of the case's points is the points of the best step reached,
// divided by the most points of any step. Without steps the case is skipped, with the figures as its message. A
// server that has lost or changed orders gets no points.
func Outcome(r *Result, err error, steps []Step) script.Outcome {
	if err != nil {
		return script.Outcome{Status: script.Fail, Tries: 1, Trouble: true,
			Message: "The server must answer under load: " + err.Error() + "."}
	}
	out := script.Outcome{Status: script.Fail, Tries: 1, Message: r.text()}
	if r.Wrong > 0 {
		out.Message += fmt.Sprintf(" Of %d accepted orders that were queried, %d differ from what was sent.",
			r.Asked, r.Wrong)
		return out
	}
	most, next := 0.0, 0.0
	for _, s := range steps {
		most = max(most, s.Points)
		if r.Share >= s.Share {
			out.Share = max(out.Share, s.Points)
		} else if next == 0 || s.Share < next {
			next = s.Share
		}
	}
	if most == 0 {
		out.Status = script.Skip
		return out
	}
	if out.Share /= most; out.Share > 0 {
		out.Status = script.Part
	}
	if out.Share == 1 {
		out.Status = script.Pass
	} else if next > 0 {
		out.Message += fmt.Sprintf(" The next step is at %s.", percent(next))
	}
	return out
}

// text returns the figures as sentences.
func (r *Result) text() string {
	text := fmt.Sprintf("%.0f orders a second, each within %s (median) or %s (99 of 100). An echo server on this machine "+
		"answers %.0f: the share is %s.", r.Rate, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), r.Echo,
		percent(r.Share))
	if r.Errors > 0 {
		text += fmt.Sprintf(" %d of %d replies accepted no order.", r.Errors, r.Requests)
	}
	return text
}

func percent(share float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(100*share, 'f', 1, 64), ".0") + " %"
}
