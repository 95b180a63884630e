package bench

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

// Files in the directory of documents. Tables of results are inserted between marks in handwritten pages.
// The page of all benchmarks is generated as a whole.
const (
	resultsPage     = "RESULTS.md"
	reliabilityPage = "RELIABILITY.md"
	benchmarksPage  = "reference/BENCHMARKS.md"

	// Data files of the full plan, a soak and the goals.
	fullFile  = "scalability/points.json"
	soakFile  = "scalability/soak.json"
	goalsFile = "performance/goals.json"
)

// writePages writes the pages, plots and CSV files for the data in docs, and nothing if there is no data.
// It returns an error if a file cannot be read or written, a run has failed, or a page has a mark for an
// unknown table.
func writePages(docs string) error {
	m, err := loadMeasured(docs)
	if err != nil || m.full == nil && m.goals == nil {
		return err
	}
	if m.full != nil {
		if err := drawn(docs, m.full, m.soak); err != nil {
			return err
		}
	}
	if err := drawAnchors(docs, m.anchors); err != nil {
		return err
	}
	tables := m.resultTables()
	page := filepath.Join(docs, benchmarksPage)
	if err := errors.Join(os.MkdirAll(filepath.Dir(page), 0o755),
		os.WriteFile(page, []byte(m.page()), 0o644)); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return errors.Join(refreshFile(filepath.Join(docs, resultsPage), tables),
		refreshFile(filepath.Join(docs, reliabilityPage), tables))
}

// loadIfThere loads a data file. It returns nil if the file does not exist in docs.
func loadIfThere(docs, name string) (*Data, error) {
	d, err := loadData(filepath.Join(docs, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return d, err
}

// drawn writes the CSV file and the plots next to the data. soak may be nil.
func drawn(docs string, d, soak *Data) error {
	files := map[string]func(io.Writer) error{"points.csv": d.WriteCSV}
	for _, data := range []*Data{d, soak} {
		if data == nil {
			continue
		}
		figures, err := data.Figures()
		if err != nil {
			return err
		}
		for _, f := range figures {
			files[f.Name+".svg"] = f.Write
		}
	}
	for name, write := range files {
		if err := WriteFile(filepath.Join(docs, filepath.Dir(fullFile), name), write); err != nil {
			return err
		}
	}
	return nil
}

// refreshFile replaces the tables in a page.
func refreshFile(path string, tables map[string]string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	text, err := refresh(string(b), tables)
	if err != nil {
		return fmt.Errorf("bench: %s: %w", path, err)
	}
	return WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// block matches a table between its marks.
var block = regexp.MustCompile(`(?s)(<!-- table: (\S+) -->\n).*?(<!-- end -->)`)

// refresh returns a page with its tables replaced. The error names a mark for an unknown table.
func refresh(page string, tables map[string]string) (string, error) {
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
		return "", fmt.Errorf("unknown table %q", unknown[0])
	}
	return text, nil
}

func about(d *Data) string {
	sync := load.SpreadOf(d.Points, func(p *Point) float64 { return p.SyncMedian })
	others := load.SpreadOf(d.Points, func(p *Point) float64 { return 100 * p.Others })
	requests, wrong := uint64(0), uint64(0)
	for _, p := range d.Points {
		requests += p.Requests
		wrong += p.Errors
	}
	return fmt.Sprintf("%d runs on %s, with client, server and Postgres on it; %s, revision %s. A small write and its "+
		"sync take %.2f ms on its disk (%.2f to %.2f). Others, the kernel among them, had %.0f %% of the processors in the "+
		"median run and %.0f %% at most. Replies that were not expected: %d of %d. Runs that failed, because the "+
		"exchange did not hold what clients were told or said something else than was expected: %d.\n\n    %s\n",
		len(d.Points), d.Machine, d.Began.Format("2006-01-02"), d.Revision, sync.Median, sync.Min, sync.Max, others.Median,
		others.Max, wrong, requests, len(d.Failures()), d.Command)
}

// ofScenario returns the section of a scenario.
func (d *Data) ofScenario(x scenario.Scenario) string {
	t := d.points(func(name string) bool { return name == x.Name })
	published := ""
	if x.Published != "" {
		published = "Of an earlier system: " + x.Published + ".\n\n"
	}
	if len(t) == 1 {
		return "Not measured yet.\n"
	}
	return fmt.Sprintf("%s%s\nThis table again: `go run ./loadtest bench full -only %s`.\n", published, t.Markdown(),
		x.Name)
}

// csvFields are the CSV columns that are fields of a point.
const csvFields = `gomaxprocs repetition seed requests errors seconds requests_per_second
	commands_per_second persisted_per_second p50_ms p90_ms p99_ms p999_ms max_ms p99_from_sending_ms
	server_cpu_us_per_request postgres_cpu_us_per_request client_cpu_us_per_request lag_records_at_end
	catch_up_seconds server_resident_bytes echo_requests_per_second echo_p50_ms disk_sync_ms others_cpu_share cpus
	revision exchange_agrees`

// csvNames renames columns that are named differently from their fields.
var csvNames = strings.NewReplacer("_us_per_request", "_us", "lag_records_at_end", "lag_records",
	"server_resident_bytes", "server_bytes", "exchange_agrees", "agrees")

// WriteCSV writes a line for each point, without timelines. It returns w's error.
func (d *Data) WriteCSV(w io.Writer) error {
	lines := [][]string{strings.Fields("scenario variant " + csvNames.Replace(csvFields))}
	for _, p := range d.Points {
		var fields map[string]json.RawMessage
		b, err := json.Marshal(p)
		if err = errors.Join(err, json.Unmarshal(b, &fields)); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		line := []string{p.Scenario, p.Params.String()}
		for _, name := range strings.Fields(csvFields) {
			line = append(line, strings.Trim(rounded(string(fields[name])), `"`))
		}
		lines = append(lines, line)
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// rounded rounds a JSON number to seven digits unless it is an integer.
func rounded(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !strings.ContainsAny(text, ".e") {
		return text
	}
	return strconv.FormatFloat(f, 'g', 7, 64)
}
