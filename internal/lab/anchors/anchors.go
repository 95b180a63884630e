// Package anchors measures well-known servers side by side with Outcry, on the same disk, in turns, with
// one client: Redis, Postgres, etcd and NATS JetStream, each configured to answer a write only once it is
// durable, and a server that only echoes. A request costs the client the same for all servers: prepared
// bytes, a write, a read, and a scan for the ends of replies (package load). Every reply is compared with
// the expected one, and afterwards each server is asked how many writes it has.
package anchors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
)

// Shape is the number of connections of a load and of unanswered requests on each.
type Shape struct {
	Connections int `json:"connections"`
	Depth       int `json:"depth"`
}

// String returns the shape as written in flags, such as 64×16.
func (s Shape) String() string { return fmt.Sprintf("%d×%d", s.Connections, s.Depth) }

// ParseShape parses a shape in the form of String; x is accepted for ×. The error contains the text.
func ParseShape(text string) (s Shape, err error) {
	n, err := fmt.Sscanf(strings.ReplaceAll(text, "×", "x"), "%dx%d", &s.Connections, &s.Depth)
	if err != nil || n != 2 || s.Connections < 1 || s.Connections > connectionsMax || s.Depth < 1 || s.Depth > depthMax ||
		s.String() != strings.ReplaceAll(text, "x", "×") {
		return s, fmt.Errorf("%q is not a load: it must be connections×unanswered requests, at most %d×%d", text,
			connectionsMax,
			depthMax)
	}
	return s, nil
}

// Largest values of a load's shape.
const (
	connectionsMax = 128
	depthMax       = 64
)

// Options configure a run.
type Options struct {
	Dir      string // data goes into a fresh directory below it
	Echo     []string
	Servers  []string // programs of Outcry; the first is named outcry, the others after their files
	Only     []string // names of the servers to measure; empty means all that are installed
	At       []Shape
	Rounds   int
	Duration time.Duration // time of each measurement
	Rate     float64       // requests a second; 0 means as many as possible
	Share    float64       // also measure at this share of each server's own rate; 0 means not to
	Of       string        // take Share of this server's rate (see turn); "" means each server's own
	Command  string        // the command that repeats the run
	Out      io.Writer
}

// anchor is a server that may be measured.
type anchor struct {
	name    string
	durable string   // what makes a write durable before its reply
	needs   []string // required programs, in search order; none if the program is given
	start   func(ctx context.Context, dir string) (server, error)
}

// server is a running server.
type server interface {
	// measure sends requests for o.Duration, over o.Connections with o.Depth unanswered requests on each.
	// If rate is above 0 it uses the open model.
	measure(ctx context.Context, o load.Options, rate float64) (*load.Result, error)
	// settle waits until the server has no work left for the requests it has answered.
	settle(ctx context.Context) error
	// used returns the processor time used so far by the server and by its own Postgres, if it has one.
	used() (own, postgres time.Duration)
	// check returns an error unless the server has exactly this many writes.
	check(ctx context.Context, writes uint64) error
	stop()
}

// running is a server with the number of its writes so far.
type running struct {
	anchor
	server
	writes uint64
}

// settleMax is how long settle may take.
const settleMax = 2 * time.Minute

// Run measures all servers and returns the results. Report.Write prints the table. It returns an error if
// a server could not be started, gave a wrong reply, or lacks a write that it had confirmed.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	all, err := o.anchors()
	if err != nil {
		return nil, err
	}
	if o.Dir, err = os.MkdirTemp(o.Dir, "outcry-anchors-"); err != nil {
		return nil, fmt.Errorf("anchors: %w", err)
	}
	defer os.RemoveAll(o.Dir)
	WarnOfMemory(o.Dir, o.Out)
	r = newReport(ctx, o)
	var up []*running
	defer func() {
		for _, s := range up {
			s.stop()
		}
	}()
	for n, a := range all {
		dir := filepath.Join(o.Dir, fmt.Sprint(n))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("anchors: %w", err)
		}
		s, err := a.start(ctx, dir)
		if errors.Is(err, errLeftOut) && !slices.Contains(o.Only, a.name) {
			fmt.Fprintf(o.Out, "%s is left out: %v\n", a.name, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("anchors: start %s: %w", a.name, err)
		}
		up = append(up, &running{anchor: a, server: s})
		r.Servers = append(r.Servers, About{a.name, a.durable})
	}
	for round := range o.Rounds {
		for _, at := range o.At {
			if err := r.turn(ctx, o, turned(up, round), at, round); err != nil {
				return r, err
			}
		}
	}
	for _, s := range up {
		if err := s.check(ctx, s.writes); err != nil {
			return r, fmt.Errorf("anchors: %s: %w", s.name, err)
		}
	}
	r.Seconds = time.Since(r.Began).Seconds()
	return r, nil
}

// turned returns all servers, rotated so that each round starts with a different one.
func turned(all []*running, round int) []*running {
	n := round % len(all)
	return append(slices.Clone(all[n:]), all[:n]...)
}

// turn measures each server once, and again at a share of a rate if o.Share is set. If o.Of is set, it does so
// only for loads of one unanswered request, and only on servers whose own rate is higher.
func (r *Report) turn(ctx context.Context, o Options, all []*running, at Shape, round int) error {
	rates := map[string]float64{}
	for _, s := range all {
		p, err := s.once(ctx, o, at, o.Rate)
		if err != nil {
			return err
		}
		rates[s.name] = p.Rate
		r.add(p, round)
		fmt.Fprintf(o.Out, "round %d, %s: %s\n", round+1, at, p)
	}
	if o.Share == 0 || o.Of != "" && at.Depth > 1 {
		return nil // at a given rate, each request is sent alone when it is due
	}
	for _, s := range all {
		of := s.name
		if o.Of != "" {
			of = o.Of
		}
		if rates[of] == 0 {
			return fmt.Errorf("anchors: %s was not measured, so a share of its rate is unknown", of)
		}
		asked := o.Share * rates[of]
		if rates[s.name] <= asked {
			fmt.Fprintf(o.Out, "round %d, %s: %s did %.0f/s: too slow for %.0f\n",
				round+1, at, s.name, rates[s.name], asked)
			continue
		}
		p, err := s.once(ctx, o, at, asked)
		if err != nil {
			return err
		}
		r.add(p, round)
		fmt.Fprintf(o.Out, "round %d, %s: %s\n", round+1, at, p)
	}
	return nil
}

// once measures one server.
func (s *running) once(ctx context.Context, o Options, at Shape, rate float64) (*Point, error) {
	p := &Point{Server: s.name, At: at, Asked: rate}
	before, beforePG := s.used()
	client := harness.OwnCPU()
	began := time.Now()
	result, err := s.measure(ctx, load.Options{Connections: at.Connections, Depth: at.Depth, Duration: o.Duration}, rate)
	ended := time.Now()
	client = harness.OwnCPU() - client
	sending, _ := s.used()
	switch {
	case err != nil:
		return nil, fmt.Errorf("anchors: %s: %w", s.name, err)
	case result.Errors > 0:
		return nil, fmt.Errorf("anchors: %s: %d wrong replies, for example: %s", s.name, result.Errors, result.Examples[0])
	case result.Requests == 0:
		return nil, fmt.Errorf("anchors: %s: no answers", s.name)
	}
	s.writes += result.Requests
	settling, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	if err := s.settle(settling); err != nil {
		return nil, fmt.Errorf("anchors: %s: %w", s.name, err)
	}
	p.Behind = time.Since(ended).Seconds()
	after, afterPG := s.used()
	each := func(d time.Duration) float64 { return float64(d) / 1e3 / float64(result.Requests) }
	p.Summary = result.Summary()
	p.Timeline = nil
	p.ServerCPU, p.PostgresCPU, p.ClientCPU = each(after-before), each(afterPG-beforePG), each(client)
	p.ServerBusy = (sending - before).Seconds() / ended.Sub(began).Seconds()
	return p, nil
}

var (
	// errNone means that there is no server to measure.
	errNone = errors.New("anchors: none of the servers is installed")

	// errLeftOut is wrapped by the error of a server that cannot make each write durable; the server is
	// left out.
	errLeftOut = errors.New("cannot be used as an anchor")
)
