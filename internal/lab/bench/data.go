package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
)

// Data is the content of a data file: everything that one command has measured.
type Data struct {
	Command     string    `json:"command"`
	Began       time.Time `json:"began"`
	Seconds     float64   `json:"seconds"`
	Revision    string    `json:"revision"`
	Machine     string    `json:"machine"`
	Repetitions int       `json:"repetitions"`
	Points      []*Point  `json:"points,omitempty"`
	Soak        *Soak     `json:"soak,omitempty"`
	Marks       []Mark    `json:"marks,omitempty"` // only in the data of a growth
}

// NewData returns empty data for a command that begins now.
func NewData(ctx context.Context, command string) *Data {
	return &Data{Command: command, Began: time.Now().UTC(), Revision: harness.Revision(ctx, "."),
		Machine: load.Machine()}
}

// loadData reads a data file.
func loadData(path string) (*Data, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	d := new(Data)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("bench: %s: %w", path, err)
	}
	d.fill()
	return d, nil
}

// Continue adds the points of a data file, if the file exists. Each point keeps its revision. It returns
// an error if the file cannot be read.
func (d *Data) Continue(path string) error {
	old, err := loadData(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		d.Points = old.Points
	}
	return err
}

// fill sets the revision, time and processors of points that an older revision saved without them.
func (d *Data) fill() {
	processors := 0
	_, machine, _ := strings.Cut(d.Machine, ", ")
	_, _ = fmt.Sscanf(machine, "%d processors", &processors) // 0 means unknown
	for _, p := range d.Points {
		if p.Revision == "" {
			p.Revision, p.Began, p.Processors = d.Revision, d.Began, processors
		}
	}
}

// sameCell reports whether a point belongs to the given scenario, variant and number of processors.
func (p *Point) sameCell(scenario, variant string, procs int) bool {
	return p.Scenario == scenario && p.Params.String() == variant && p.GOMAXPROCS == procs
}

// has reports whether the data has a successful measurement of the job for this revision.
func (d *Data) has(j Job) bool {
	return !strings.HasSuffix(d.Revision, harness.Changed) && slices.ContainsFunc(d.Points, func(p *Point) bool {
		return p.Revision == d.Revision && p.Repetition == j.Repetition && p.CPUs == j.CPUs && p.Failure() == nil &&
			p.sameCell(j.Scenario.Name, j.Params.String(), j.GOMAXPROCS)
	})
}

// add adds a point. It replaces an equal point, and points of other revisions in the same cell.
func (d *Data) add(point *Point) {
	point.Revision = d.Revision
	if point.Run == "" {
		d.Points = slices.DeleteFunc(d.Points, func(p *Point) bool {
			return p.sameCell(point.Scenario, point.Params.String(), point.GOMAXPROCS) &&
				(p.Revision != point.Revision || p.Repetition == point.Repetition)
		})
	}
	d.Points = append(d.Points, point)
	d.Seconds = time.Since(d.Began).Seconds()
}

// Save writes a data file.
func (d *Data) Save(path string) error {
	return WriteFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(d)
	})
}

// WriteFile replaces a file with what write writes. It returns the error of write, or of the file.
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

// Failures describes the failed runs: an exchange's data differed from its answers, or an answer was not
// one that the scenario expects.
func (d *Data) Failures() (all []string) {
	for _, p := range d.Points {
		if err := p.Failure(); err != nil {
			all = append(all, fmt.Sprintf("%s %s at GOMAXPROCS=%d: %v", p.Scenario, p.Params, p.GOMAXPROCS, err))
		}
	}
	return all
}

// Cell is a scenario's variant at one number of processors, with all repetitions.
type Cell struct {
	Scenario, Variant string
	GOMAXPROCS        int
	Points            []*Point
}

// Of returns the spread of a figure over the repetitions.
func (c Cell) Of(figure func(*Point) float64) load.Spread { return load.SpreadOf(c.Points, figure) }

// Cells groups the points, in the order of first appearance, lowest number of processors first.
func (d *Data) Cells() (cells []Cell) {
	first := map[string]int{}
	for i, p := range d.Points {
		v := p.Params.String()
		at := slices.IndexFunc(cells, func(c Cell) bool {
			return p.sameCell(c.Scenario, c.Variant, c.GOMAXPROCS)
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

// number formats f with the given number of decimals.
func number(f float64, decimals int) string { return fmt.Sprintf("%.*f", decimals, f) }

// grouped formats a number with a comma between groups of three digits.
func grouped(f float64) string {
	s := number(f, 0)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// share formats a point's rate as a share of the echo server's. At a fixed rate the share means nothing
// and is left out.
func (p *Point) share(of float64) string {
	if p.Params.Rate > 0 {
		return "-"
	}
	return number(100*of, 0) + " %"
}

// shares formats the shares of both echo servers, if both were measured.
func (p *Point) shares() string {
	if p.SyncedEchoRate == 0 {
		return p.share(p.EchoShare)
	}
	return p.share(p.EchoShare) + " (" + p.share(p.SyncedEchoShare) + ")"
}

// points returns the table of the selected scenarios. A figure is the median of the repetitions, followed by the
// minimum and the maximum where readers need them to judge the median.
func (d *Data) points(wanted func(scenario string) bool) load.Table {
	t := load.Table{{"", "GOMAXPROCS", "requests/s (least to most)", "speed-up", "of echo", "seconds", "p50 ms", "p99 ms",
		"p99 from sending", "µs of server, Postgres, client", "in Postgres/s", "behind at the end", "runs, of revision"}}
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
		t.Add(c.Variant, c.procs(),
			fmt.Sprintf("%s (%s to %s)", grouped(rate.Median), grouped(rate.Min), grouped(rate.Max)),
			number(rate.Median/base[c.Scenario+c.Variant], 2),
			c.Points[0].share(of(func(p *Point) float64 { return p.EchoShare })),
			number(of(func(p *Point) float64 { return p.Seconds }), 2), number(of(func(p *Point) float64 { return p.P50 }), 2),
			number(of(func(p *Point) float64 { return p.P99 }), 2), number(of(func(p *Point) float64 { return p.SentP99 }), 2),
			cpu, grouped(of(func(p *Point) float64 { return p.Persisted })),
			grouped(of(func(p *Point) float64 { return p.LagEnd })), fmt.Sprintf("%d, %s", len(c.Points), c.Points[0].Revision))
	}
	return t
}

// procs returns the GOMAXPROCS of a cell, with a mark if it exceeds the machine's processors.
func (c Cell) procs() string {
	if have := c.Points[0].Processors; have > 0 && c.GOMAXPROCS > have {
		return fmt.Sprintf("%d*", c.GOMAXPROCS)
	}
	return fmt.Sprint(c.GOMAXPROCS)
}

// WriteTable writes a table of the measurements for a terminal: a table of the goals if the data has their runs,
// else of the scenarios.
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
