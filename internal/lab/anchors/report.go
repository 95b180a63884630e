package anchors

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
)

// Report is the result of a run, as it is written to a file.
type Report struct {
	Command  string    `json:"command"`
	Machine  string    `json:"machine"`
	Revision string    `json:"revision"`
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`
	Rounds   int       `json:"rounds"`
	Servers  []About   `json:"servers"`
	Points   []*Point  `json:"points"`
}

// About describes a server.
type About struct {
	Name    string `json:"name"`
	Durable string `json:"durable"` // what makes a write durable before its reply
}

// Point is one measurement of a server.
type Point struct {
	Server string  `json:"server"`
	At     Shape   `json:"at"`
	Round  int     `json:"round"`           // counted from 1
	Asked  float64 `json:"asked,omitempty"` // requests due a second; 0 means as many as possible
	load.Summary
	ServerCPU   float64 `json:"server_cpu_us_per_request"`
	PostgresCPU float64 `json:"postgres_cpu_us_per_request,omitempty"`
	ClientCPU   float64 `json:"client_cpu_us_per_request"`
	ServerBusy  float64 `json:"server_processors"` // processors that the server kept busy while requests were sent
	Behind      float64 `json:"behind_seconds"`    // from the last reply until Postgres had every record
}

// String returns the measurement in a line.
func (p *Point) String() string {
	return fmt.Sprintf("%-10s %9.0f/s  p50 %7.3f ms  p99 %7.3f ms  longest %7.1f ms  "+
		"µs: server %.1f, Postgres %.1f, client %.1f",
		p.Server, p.Rate, p.P50, p.P99, p.Max, p.ServerCPU, p.PostgresCPU, p.ClientCPU)
}

func newReport(ctx context.Context, o Options) *Report {
	r := &Report{Command: o.Command, Machine: load.Machine(), Began: time.Now().UTC(),
		Rounds: o.Rounds, Revision: "unknown"}
	if root, err := harness.Root(ctx); err == nil {
		r.Revision = harness.Revision(ctx, root)
	}
	return r
}

func (r *Report) add(p *Point, round int) {
	p.Round = round + 1
	r.Points = append(r.Points, p)
}

// Row combines the rounds of a server at one load.
type Row struct {
	Server          string
	At              Shape
	Open            bool // measured at a fixed rate
	Points          []*Point
	OfRedis, OfEcho load.Spread // rate relative to that server's in the same round; zero if it was not measured
}

// Of returns the spread of a figure over the rounds.
func (w *Row) Of(figure func(*Point) float64) load.Spread { return load.SpreadOf(w.Points, figure) }

// Rows returns all rows: first those of loads without a rate, ordered by load and within a load as in Servers.
func (r *Report) Rows() (rows []*Row) {
	var shapes []Shape
	seen := map[Shape]bool{}
	for _, p := range r.Points {
		if !seen[p.At] {
			seen[p.At] = true
			shapes = append(shapes, p.At)
		}
	}
	for _, open := range []bool{false, true} {
		for _, at := range shapes {
			for _, s := range r.Servers {
				w := &Row{Server: s.Name, At: at, Open: open}
				for _, p := range r.Points {
					if p.Server == s.Name && p.At == at && p.Asked > 0 == open {
						w.Points = append(w.Points, p)
					}
				}
				if len(w.Points) > 0 {
					w.OfRedis, w.OfEcho = r.share(w, "redis"), r.share(w, "echo")
					rows = append(rows, w)
				}
			}
		}
	}
	return rows
}

// share returns a row's rate as a share of another server's, round by round.
func (r *Report) share(w *Row, other string) load.Spread {
	rates := map[int]float64{}
	for _, p := range r.Points {
		if p.Server == other && p.At == w.At && p.Asked > 0 == w.Open {
			rates[p.Round] = p.Rate
		}
	}
	if len(rates) == 0 {
		return load.Spread{}
	}
	return w.Of(func(p *Point) float64 { return p.Rate / rates[p.Round] })
}

// Brief returns a table of each server's maximum rates, with a row for each server and a column for each
// load. It shows medians, or the minimum and the maximum if rounds differ too much.
func (r *Report) Brief() load.Table {
	head := []string{"server"}
	of := map[string][]string{}
	var last Shape
	for _, w := range r.Rows() {
		if w.Open {
			continue
		}
		if at := w.At; at != last {
			last = at
			head = append(head, "requests/s at "+at.String(), "of Redis", "of echo", "p50 ms", "p99 ms")
		}
		share := func(s load.Spread) string {
			if s.Median == 0 {
				return "–"
			}
			return s.Headline(hundredths)
		}
		of[w.Server] = append(of[w.Server], w.Of(rateOf).Headline(grouped), share(w.OfRedis), share(w.OfEcho),
			w.Of(p50Of).Headline(hundredths), w.Of(p99Of).Headline(hundredths))
	}
	t := load.Table{head}
	for _, s := range r.Servers {
		t = append(t, append([]string{s.Name}, of[s.Name]...))
	}
	return t
}

func hundredths(f float64) string { return fmt.Sprintf("%.2f", f) }

func rateOf(p *Point) float64     { return p.Rate }
func p50Of(p *Point) float64      { return p.P50 }
func p99Of(p *Point) float64      { return p.P99 }
func maxOf(p *Point) float64      { return p.Max }
func serverOf(p *Point) float64   { return p.ServerCPU }
func postgresOf(p *Point) float64 { return p.PostgresCPU }
func clientOf(p *Point) float64   { return p.ClientCPU }
func lagOf(p *Point) float64      { return p.Behind }

// Table returns all measurements with spreads, in a row for each server and load.
func (r *Report) Table() load.Table {
	t := load.Table{{"load", "server", "requests/s (least to most)", "of Redis", "of echo", "p50 ms", "p99 ms",
		"longest ms",
		"µs of server, Postgres, client", "s behind"}}
	for _, w := range r.Rows() {
		rate := w.Of(rateOf)
		median := func(figure func(*Point) float64, digits int) string {
			return fmt.Sprintf("%.*f", digits, w.Of(figure).Median)
		}
		at := w.At.String()
		if w.Open {
			at += " at a rate"
		}
		t.Add(at, w.Server, fmt.Sprintf("%s (%s to %s)", grouped(rate.Median), grouped(rate.Min), grouped(rate.Max)),
			ofOther(w.OfRedis), ofOther(w.OfEcho), median(p50Of, 2), median(p99Of, 2), median(maxOf, 1),
			median(serverOf, 1)+", "+median(postgresOf, 1)+", "+median(clientOf, 1), median(lagOf, 1))
	}
	return t
}

// ofOther formats a share with its spread.
func ofOther(s load.Spread) string {
	if s.Median == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median, s.Min, s.Max)
}

// grouped formats a number with commas between thousands.
func grouped(f float64) string {
	digits := fmt.Sprintf("%.0f", f)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Write writes the complete table for a terminal.
func (r *Report) Write(w io.Writer) { r.Table().Write(w) }
