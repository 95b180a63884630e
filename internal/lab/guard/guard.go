// Package guard compares what an order costs in the working tree with what it cost at an earlier revision. It builds
// both programs and measures them in turns, each time a new server in an empty directory with its own Postgres: orders
// per second, and processor time per order of the server and of Postgres. Only the ratio of the two runs of a round is
// meaningful, since rates depend on the machine and on its other work.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"outcry/internal/lab/anchors"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
)

// Recorded is the revision that goals refer to: the last one before the server kept a view of each account in memory.
const Recorded = "cbb419f937ce53530a888df233d765484ccf7b6d"

// ErrNoHistory means that git does not have Recorded, so nothing can be compared with it.
var ErrNoHistory = errors.New("git does not have the recorded revision here, as in a shallow clone (see git fetch " +
	"--unshallow) or in an archive of the source")

// Options configure a run.
type Options struct {
	Base     string        // the earlier revision, such as Recorded
	Rounds   int           // how often each load is measured on each program
	Duration time.Duration // time of each measurement
	Out      io.Writer     // receives a line for each measurement
	Command  string        // how the run can be repeated, for the report
}

// The measured loads. Each connection trades one of ten symbols.
var (
	pipelined = anchors.Shape{Connections: 64, Depth: 16}
	single    = anchors.Shape{Connections: 64, Depth: 1}
)

// buildMax is how long building both programs may take.
const buildMax = 20 * time.Minute

// side is one of the two compared programs.
type side int

const (
	base side = iota
	head
)

var names = [...]string{base: "base", head: "head"}

// Run builds and measures both programs. It returns ErrNoHistory if o.Base is Recorded and git does not have it. Other
// errors: a build, a server or a check failed, or a reply was wrong. No figure is an error.
func Run(ctx context.Context, o Options) (*Report, error) {
	root, err := harness.Root(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := harness.Commit(ctx, root, o.Base)
	switch {
	case err != nil && o.Base == Recorded && ctx.Err() == nil:
		return nil, fmt.Errorf("%w: %w", ErrNoHistory, err)
	case err != nil:
		return nil, err
	}
	dir, err := os.MkdirTemp("", "outcry-guard-")
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	defer os.RemoveAll(dir)
	programs, err := build(ctx, root, commit, dir)
	if err != nil {
		return nil, err
	}
	r := &Report{Command: o.Command, Began: time.Now().UTC(), Base: commit, Head: harness.Revision(ctx, root),
		Loads: []anchors.Shape{pipelined, single}, Machine: load.Machine()}
	anchors.WarnOfMemory(dir, o.Out)
	if err := r.measure(ctx, o, programs, dir); err != nil {
		return nil, err
	}
	return r, nil
}

// build builds the programs of a commit and of the working tree below dir.
func build(ctx context.Context, root, commit, dir string) (programs [2]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildMax)
	defer cancel()
	const command = "./cmd/outcryd"
	if programs[base], err = harness.BuildCommit(ctx, root, commit, command, filepath.Join(dir, "base")); err != nil {
		return programs, err
	}
	programs[head], err = harness.Build(ctx, root, command, filepath.Join(dir, "head"))
	return programs, err
}

// measure measures every load of r o.Rounds times on both programs. The program that is first changes from round to
// round.
func (r *Report) measure(ctx context.Context, o Options, programs [2]string, dir string) error {
	r.Rounds, r.Duration = o.Rounds, o.Duration
	for round := range o.Rounds {
		for _, at := range r.Loads {
			p := Pair{At: at}
			for turn := range side(len(programs)) {
				s := (turn + side(round)) % side(len(programs))
				point, err := anchors.Fresh(ctx, programs[s], dir, at, o.Duration)
				if err != nil {
					return fmt.Errorf("guard: %s at %s: %w", names[s], at, err)
				}
				p.Points[s] = point
				fmt.Fprintf(o.Out, "round %d of %d, %s, %s: %.0f orders/s, µs: server %.2f, Postgres %.2f\n", round+1, o.Rounds,
					at, names[s], point.Rate, point.ServerCPU, point.PostgresCPU)
			}
			r.Pairs = append(r.Pairs, p)
		}
	}
	return nil
}
