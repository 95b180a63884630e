// Package scalability keeps docs/SCALABILITY.md: the tables in it, between marks,
// are made of the results beside it; the text around them is people's.
package scalability

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"outcry/internal/load/scenario"
	"outcry/loadtest/plots"
	"outcry/loadtest/soak"
	"outcry/loadtest/sweep"
)

// Files below the directory docs.
const (
	page    = "SCALABILITY.md"
	results = "scalability"
	points  = "points.json"
	table   = "points.csv"
	soaked  = "soak.json"
)

// Load reads the results of an earlier sweep from docs.
func Load(docs string) (*sweep.Report, error) {
	r := new(sweep.Report)
	return r, load(filepath.Join(docs, results, points), r)
}

func load(path string, to any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return fmt.Errorf("scalability: %w", err)
	}
	return nil
}

// Write writes the results of a sweep, its plots, and the tables of the page. The
// soak's are of the last one that is in docs. The error says what could not be
// written, or which mark in the page is of no table.
func Write(docs string, r *sweep.Report) error {
	dir := filepath.Join(docs, results)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("scalability: %w", err)
	}
	if err := writeFile(filepath.Join(dir, points), r.WriteJSON); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, table), r.WriteCSV); err != nil {
		return err
	}
	s := new(soak.Report)
	if err := load(filepath.Join(dir, soaked), s); errors.Is(err, fs.ErrNotExist) {
		s = nil
	} else if err != nil {
		return err
	}
	figures, err := plots.Figures(r, s)
	if err != nil {
		return err
	}
	for _, f := range figures {
		if err := f.WriteFile(dir); err != nil {
			return err
		}
	}
	path := filepath.Join(docs, page)
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("scalability: %w", err)
	}
	text, err := Refresh(string(b), tables(r, s))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("scalability: %w", err)
	}
	return nil
}

// block is a table between its marks.
var block = regexp.MustCompile(`(?s)(<!-- table: (\S+) -->\n).*?(<!-- end -->)`)

// Refresh returns a page with its tables replaced. The error names a mark that is of
// no table.
func Refresh(page string, tables map[string]string) (string, error) {
	var unknown []string
	text := block.ReplaceAllStringFunc(page, func(old string) string {
		part := block.FindStringSubmatch(old)
		table, ok := tables[part[2]]
		if !ok {
			unknown = append(unknown, part[2])
		}
		return part[1] + table + part[3]
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("scalability: there is no table %q", unknown[0])
	}
	return text, nil
}

func tables(r *sweep.Report, s *soak.Report) map[string]string {
	all := map[string]string{"about": about(r), "soak": "Not measured yet.\n"}
	for _, x := range scenario.All() {
		if x.Name == soak.Scenario {
			continue
		}
		all[x.Name] = ofScenario(r, x)
	}
	if s != nil {
		all["soak"] = ofSoak(s)
	}
	return all
}

func about(r *sweep.Report) string {
	sync := sweep.Cell{Points: r.Points}.Of(func(p *sweep.Point) float64 { return p.SyncMedian })
	requests, wrong := uint64(0), uint64(0)
	for _, p := range r.Points {
		requests += p.Requests
		wrong += p.Errors
	}
	return fmt.Sprintf("%d runs, %d of each, on %s, with client, server and Postgres on it; %s, revision %s; %.0f minutes in all. A small "+
		"write and its sync take %.2f ms on its disk (%.2f to %.2f). Replies that were not expected: %d of %d. Runs that failed, because the exchange "+
		"did not hold what clients were told or said something else than was expected: %d.\n\n    %s\n",
		len(r.Points), r.Repetitions, r.Machine, r.Began.Format("2006-01-02"), r.Revision, r.Seconds/60,
		sync.Median, sync.Min, sync.Max, wrong, requests, len(r.Failures()), r.Command)
}

// ofScenario makes the table of a scenario. A figure is the median of the
// repetitions, with the least and the most where they say how far it can be trusted.
func ofScenario(r *sweep.Report, x scenario.Scenario) string {
	var b strings.Builder
	if x.Published != "" {
		fmt.Fprintf(&b, "Published by an earlier system: %s.\n\n", x.Published)
	}
	b.WriteString("| | GOMAXPROCS | requests/s (least to most) | speed-up | of echo | seconds | p50 ms | p99 ms | p99 from sending | µs of server, Postgres, client | in Postgres/s | behind at the end |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	base, rows := map[string]float64{}, 0
	for _, c := range r.Cells() {
		if c.Scenario != x.Name {
			continue
		}
		of := func(figure func(*sweep.Point) float64) float64 { return c.Of(figure).Median }
		rate := c.Of(func(p *sweep.Point) float64 { return p.Rate })
		if base[c.Variant] == 0 {
			base[c.Variant] = rate.Median
		}
		fmt.Fprintf(&b, "| %s | %d | %s (%s to %s) | %.2f | %s | %.2f | %.2f | %.2f | %.2f | %.0f, %.0f, %.0f | %s | %s |\n",
			c.Variant, c.GOMAXPROCS, sweep.Grouped(rate.Median), sweep.Grouped(rate.Min), sweep.Grouped(rate.Max), rate.Median/base[c.Variant],
			sweep.ShareText(c.Points[0].Params, of(func(p *sweep.Point) float64 { return p.EchoShare })), of(func(p *sweep.Point) float64 { return p.Seconds }),
			of(func(p *sweep.Point) float64 { return p.P50 }), of(func(p *sweep.Point) float64 { return p.P99 }),
			of(func(p *sweep.Point) float64 { return p.SentP99 }),
			of(func(p *sweep.Point) float64 { return p.ServerCPU }), of(func(p *sweep.Point) float64 { return p.PostgresCPU }),
			of(func(p *sweep.Point) float64 { return p.ClientCPU }),
			sweep.Grouped(of(func(p *sweep.Point) float64 { return p.Persisted })), sweep.Grouped(of(func(p *sweep.Point) float64 { return p.LagEnd })))
		rows++
	}
	if rows == 0 {
		return "Not measured yet.\n"
	}
	fmt.Fprintf(&b, "\nThis table again: `go run ./loadtest sweep -only %s -repeat %d`.\n", x.Name, r.Repetitions)
	return b.String()
}

// ofSoak tells of a soak in a sentence and a table of six moments.
func ofSoak(s *soak.Report) string {
	var b strings.Builder
	verdict := "Nothing grew, and the exchange held what clients were told."
	if len(s.Findings) > 0 {
		verdict = "FINDINGS: " + strings.Join(s.Findings, "; ") + "."
	}
	half := ""
	if s.Capacity > 0 {
		half = fmt.Sprintf("half of the %s a second that a short run over 64 connections reached; ", sweep.Grouped(s.Capacity))
	}
	fmt.Fprintf(&b, "%s requests, %s a second, %s%s, revision %s. %s\n\n    %s\n\n",
		sweep.Grouped(float64(s.Requests)), sweep.Grouped(float64(s.Rate)), half, s.Began.Format("2006-01-02"), s.Revision, verdict, s.Command)
	b.WriteString("| second | p50 ms | p99 ms | longest ms | server MiB | files | goroutines | open orders | Postgres behind |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	step := max(len(s.Samples)/6, 1)
	for i := step - 1; i < len(s.Samples); i += step {
		x := s.Samples[i]
		fmt.Fprintf(&b, "| %.0f | %.2f | %.2f | %.1f | %.0f | %d | %.0f | %s | %s |\n", x.Second, x.P50, x.P99, x.Max, float64(x.Resident)/(1<<20),
			x.Files, x.Goroutines, sweep.Grouped(x.OpenOrders), sweep.Grouped(x.Lag))
	}
	return b.String()
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("scalability: %w", err)
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("scalability: %w", err)
	}
	return f.Close()
}
