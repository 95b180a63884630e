package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"outcry/internal/load"
	"outcry/loadtest/harness"
)

// Data is what is in a file: of one command, what it has measured.
type Data struct {
	Command     string    `json:"command"`
	Began       time.Time `json:"began"`
	Seconds     float64   `json:"seconds"`
	Revision    string    `json:"revision"`
	Machine     string    `json:"machine"`
	Repetitions int       `json:"repetitions"`
	Points      []*Point  `json:"points,omitempty"`
	Soak        *Soak     `json:"soak,omitempty"`
	Marks       []Mark    `json:"marks,omitempty"` // of a growth
}

// NewData returns that of a command that begins now.
func NewData(ctx context.Context, command string) *Data {
	return &Data{Command: command, Began: time.Now().UTC(), Revision: harness.Revision(ctx, "."),
		Machine: load.Machine()}
}

// Save writes a file of data.
func (d *Data) Save(path string) error {
	return WriteFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(d)
	})
}

// WriteFile writes a file anew. The error is that of write, or of the file.
func WriteFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(write(file), file.Close())
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// Failures tells of the runs in which an exchange held something else than clients
// were told, or answered something that the scenario does not expect.
func (d *Data) Failures() (all []string) {
	for _, p := range d.Points {
		if err := p.Failure(); err != nil {
			all = append(all, fmt.Sprintf("%s %s at GOMAXPROCS=%d: %v", p.Scenario, p.Params, p.GOMAXPROCS, err))
		}
	}
	return all
}

// Cell is a scenario's variant at one number of processors, over all repetitions.
type Cell struct {
	Scenario, Variant string
	GOMAXPROCS        int
	Points            []*Point
}

// Of returns the spread of a figure over the repetitions.
func (c Cell) Of(figure func(*Point) float64) load.Spread { return load.SpreadOf(c.Points, figure) }

// Cells groups the points, in the order in which they first came, fewest
// processors first.
func (d *Data) Cells() (cells []Cell) {
	first := map[string]int{}
	for i, p := range d.Points {
		v := p.Params.String()
		at := slices.IndexFunc(cells, func(c Cell) bool {
			return c.Scenario == p.Scenario && c.Variant == v && c.GOMAXPROCS == p.GOMAXPROCS
		})
		if at < 0 {
			at = len(cells)
			cells = append(cells, Cell{Scenario: p.Scenario, Variant: v, GOMAXPROCS: p.GOMAXPROCS})
		}
		cells[at].Points = append(cells[at].Points, p)
		if _, ok := first[p.Scenario+v]; !ok {
			first[p.Scenario+v] = i
		}
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(first[a.Scenario+a.Variant], first[b.Scenario+b.Variant]),
			cmp.Compare(a.GOMAXPROCS, b.GOMAXPROCS))
	})
	return cells
}

// number writes f with so many decimals.
func number(f float64, decimals int) string { return fmt.Sprintf("%.*f", decimals, f) }

// grouped writes a number with a comma between groups of three digits.
func grouped(f float64) string {
	s := number(f, 0)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// share writes a share of what the echo server does. At a fixed rate it says nothing.
func (p *Point) share(of float64) string {
	if p.Params.Rate > 0 {
		return "-"
	}
	return number(100*of, 0) + " %"
}

// shares writes those of both echo servers, if both were measured.
func (p *Point) shares() string {
	if p.SyncedEchoRate == 0 {
		return p.share(p.EchoShare)
	}
	return p.share(p.EchoShare) + " (" + p.share(p.SyncedEchoShare) + ")"
}

// points returns the table of the scenarios that are wanted. A figure is the median of the
// repetitions, with the least and the most where they say how far it can be trusted.
func (d *Data) points(wanted func(scenario string) bool) load.Table {
	t := load.Table{{"", "GOMAXPROCS", "requests/s (least to most)", "speed-up", "of echo", "seconds", "p50 ms", "p99 ms",
		"p99 from sending", "µs of server, Postgres, client", "in Postgres/s", "behind at the end"}}
	base := map[string]float64{}
	for _, c := range d.Cells() {
		if !wanted(c.Scenario) {
			continue
		}
		of := func(figure func(*Point) float64) float64 { return c.Of(figure).Median }
		rate := c.Of(func(p *Point) float64 { return p.Rate })
		if base[c.Scenario+c.Variant] == 0 {
			base[c.Scenario+c.Variant] = rate.Median
		}
		cpu := fmt.Sprintf("%.0f, %.0f, %.0f", of(func(p *Point) float64 { return p.ServerCPU }),
			of(func(p *Point) float64 { return p.PostgresCPU }), of(func(p *Point) float64 { return p.ClientCPU }))
		t.Add(c.Variant, c.GOMAXPROCS,
			fmt.Sprintf("%s (%s to %s)", grouped(rate.Median), grouped(rate.Min), grouped(rate.Max)),
			number(rate.Median/base[c.Scenario+c.Variant], 2),
			c.Points[0].share(of(func(p *Point) float64 { return p.EchoShare })),
			number(of(func(p *Point) float64 { return p.Seconds }), 2), number(of(func(p *Point) float64 { return p.P50 }), 2),
			number(of(func(p *Point) float64 { return p.P99 }), 2), number(of(func(p *Point) float64 { return p.SentP99 }), 2),
			cpu, grouped(of(func(p *Point) float64 { return p.Persisted })),
			grouped(of(func(p *Point) float64 { return p.LagEnd })))
	}
	return t
}

// WriteTable writes what was measured for people: the scenarios, or the goals if it is
// their runs.
func (d *Data) WriteTable(w io.Writer) {
	if len(d.whole()) > 0 {
		d.judged().Write(w)
		return
	}
	all := d.points(func(string) bool { return true })
	for i, c := range d.Cells() {
		all[i+1][0] = c.Scenario + ", " + c.Variant
	}
	all.Write(w)
}

func mega(bytes int64) float64 { return float64(bytes) / (1 << 20) }
