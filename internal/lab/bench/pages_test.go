package bench

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/anchors"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

func TestOnlyTablesAreReplaced(t *testing.T) {
	page := "# Title\n<!-- table: a -->\nold\nold\n<!-- end -->\ntext of people\n<!-- table: b -->\n<!-- end -->\n"
	want := "# Title\n<!-- table: a -->\nnew\n<!-- end -->\ntext of people\n<!-- table: b -->\n1\n2\n<!-- end -->\n"
	tables := map[string]string{"a": "new\n", "b": "1\n2\n"}
	got, err := refresh(page, tables)
	require.NoError(t, err)
	require.Equal(t, want, got)
	again, err := refresh(got, tables)
	require.NoError(t, err)
	require.Equal(t, want, again)
	_, err = refresh(page, map[string]string{"a": ""})
	require.ErrorContains(t, err, `unknown table "b"`)
}

func TestResultsAreWrittenAndReadAgain(t *testing.T) {
	docs := t.TempDir()
	page := filepath.Join(docs, resultsPage)
	marks := "<!-- table: machine -->\n<!-- end -->\n<!-- table: summary -->\n<!-- end -->\n<!-- table: missed -->\n" +
		"<!-- end -->\n"
	for _, name := range []string{resultsPage, reliabilityPage} {
		require.NoError(t, os.WriteFile(filepath.Join(docs, name), []byte(marks), 0o600))
	}
	curve := make([]float64, len(load.Quantiles))
	point := func(procs int, rate float64, differs string) *Point {
		return &Point{Scenario: "hot", Params: scenario.Params{Clients: 64, Depth: 16}, GOMAXPROCS: procs,
			Summary: load.Summary{Requests: 30, Rate: rate, Curve: curve}, Agrees: differs == "", Differs: differs}
	}
	r := &Data{Command: "go run ./loadtest bench full", Machine: "a machine, 4 processors", Revision: "abc",
		Repetitions: 1, Points: []*Point{point(1, 1234567, ""), point(2, 2469134, "a cent"), point(4, 3703701, "")}}
	require.NoError(t, os.Mkdir(filepath.Join(docs, "scalability"), 0o700))
	require.NoError(t, r.Save(filepath.Join(docs, fullFile)))
	require.NoError(t, writePages(docs))
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(b), "On a machine, 4 processors, with")
	require.Contains(t, string(b), "| the same in one symbol | 1,234,567 | 2,469,134 | 3,703,701 |")
	require.Contains(t, string(b), "Not measured yet.", "there are no goals")
	b, err = os.ReadFile(filepath.Join(docs, benchmarksPage))
	require.NoError(t, err)
	require.Contains(t, string(b), "| 64 clients × 16 | 1 | 1,234,567 (1,234,567 to 1,234,567) | 1.00 |")
	require.Contains(t, string(b), "| 64 clients × 16 | 2 | 2,469,134 (2,469,134 to 2,469,134) | 2.00 |")
	require.Contains(t, string(b), "3 runs on a machine")
	require.Contains(t, string(b), "or said something else than was expected: 1.")
	require.NotContains(t, string(b), "## Goals")
	got, err := loadData(filepath.Join(docs, fullFile))
	require.NoError(t, err)
	r.fill()
	require.Equal(t, r.Points, got.Points)
	require.FileExists(t, filepath.Join(docs, "scalability", "points.csv"))
	require.FileExists(t, filepath.Join(docs, "scalability", "cpu.svg"))
	require.NoError(t, os.Remove(page))
	require.ErrorContains(t, writePages(docs), resultsPage)
	require.NoError(t, writePages(t.TempDir()), "nothing was measured")
}

// TestNoHeadlineHasAWideSpread checks that RESULTS shows the minimum and the maximum if runs differ by
// more than a fifth.
func TestNoHeadlineHasAWideSpread(t *testing.T) {
	cell := func(procs int, rates ...float64) (points []*Point) {
		for _, rate := range rates {
			points = append(points, &Point{Scenario: "market", Params: scenario.Params{Clients: 64}, GOMAXPROCS: procs,
				Processors: 2, Revision: "abc", EchoShare: 0.5, Summary: load.Summary{Rate: rate, P50: 2, P99: rate}})
		}
		return points
	}
	d := &Data{Machine: "m"}
	d.Points = append(cell(1, 900, 1000, 1000, 1050, 1099), cell(2, 1700, 1900, 2000, 2050, 2101)...)
	require.Contains(t, d.summary(), "| 64 clients, one at a time | 1,000 | 1,700–2,101 | 2.00 | 1700.00–2101.00 | 50 |")
	require.Contains(t, d.measuredOn(), "revision abc. A figure is the median of 5 runs;")
	d.Points[9].Rate = 2100
	require.Contains(t, d.summary(), "| 64 clients, one at a time | 1,000 | 2,000 | 2.00 |", "exactly a fifth")
	d.Points = append(d.Points, cell(4, 10, 11)...)
	require.Equal(t, "10*", strings.TrimSuffix(d.cell("market", "64 clients", 4).headline(func(p *Point) float64 {
		return min(p.Rate, 10)
	}, 0), ""), "more than the machine has")
	r := &anchors.Report{Servers: []anchors.About{{Name: "outcry"}}}
	for round, rate := range []float64{900, 1000, 1101} {
		r.Points = append(r.Points, &anchors.Point{Server: "outcry", Round: round + 1,
			Summary: load.Summary{Rate: rate, P50: 1, P99: 2}})
	}
	require.Contains(t, anchorsTable(r), "| outcry | 900–1,101 | – | – | 1.00 | 2.00 |\n")
	for _, c := range d.Cells() {
		s := c.Of(rateOf)
		require.Equal(t, s.Max-s.Min > 0.2*s.Median, strings.Contains(c.headline(rateOf, 0), "–"))
	}
}

// TestTheComparisonHasWhatWasPublished checks two rows of the comparison: a computed one, and one of a machine with
// too few processors.
func TestTheComparisonHasWhatWasPublished(t *testing.T) {
	d := new(Data)
	for _, procs := range []int{1, 2, 4} {
		for range 5 {
			d.Points = append(d.Points, &Point{Scenario: "cores", Params: scenario.Params{Clients: 1}, GOMAXPROCS: procs,
				Processors: 2, Summary: load.Summary{Rate: float64(1000 * procs)}}, &Point{Scenario: "populate",
				Params: scenario.Params{Clients: 1}, GOMAXPROCS: procs, Processors: 2, Summary: load.Summary{Seconds: 7}})
		}
	}
	few, all := d.published(false), d.published(true)
	require.Contains(t, few, "| one client, on 1, 2, 4 cores | 176, 181, 184/s | 1,000, 2,000, 4,000*/s |\n")
	require.Contains(t, few, "| 10,000 users, on 1, 2, 4 cores | 852, 580, 400 s | 7.0, 7.0, 7.0* s |\n")
	require.Contains(t, all, "| third | its second server | not known | - |\n")
	require.NotContains(t, few, notKnownHere)
	for _, x := range experiments { // every experiment is measured by the record
		for _, variant := range x.variants {
			require.True(t, slices.ContainsFunc(Record(), func(j Job) bool {
				return j.Scenario.Name == x.scenario && j.Params.String() == variant && slices.Equal(j.At, x.procs) ||
					j.Scenario.Name == x.scenario && j.Params.String() == variant && len(j.At) > len(x.procs)
			}), "%s %s", x.scenario, variant)
		}
	}
}

// docsDir is the directory of documents in the repository.
const docsDir = "../../../docs"

func readPage(t *testing.T, docs, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docs, name))
	require.NoError(t, err)
	return string(b)
}

// Each table of results must be in one of the pages.
func TestThePagesHaveEveryTable(t *testing.T) {
	m, err := loadMeasured(docsDir)
	require.NoError(t, err)
	tables := m.resultTables()
	require.NotContains(t, tables["missed"], notKnown)
	pages := readPage(t, docsDir, resultsPage) + readPage(t, docsDir, reliabilityPage)
	for name, text := range tables {
		missing := name == "anchors" && m.anchors == nil || name == "guard" && m.guard == nil
		require.True(t, missing || text != notMeasured, name)
		require.Equal(t, 1, strings.Count(pages, "<!-- table: "+name+" -->\n"), name)
	}
	for _, x := range shown {
		require.True(t, slices.ContainsFunc(Record(), func(j Job) bool {
			return j.Scenario.Name == x.scenario && j.Params.String() == x.variant
		}), "%s is nothing that the record measures", x.text)
	}
	page := m.page()
	for _, x := range scenario.All() {
		require.True(t, x.Name == soakScenario || strings.Contains(page, "## `"+x.Name+"`: "), x.Name)
	}
	for _, c := range csvTables {
		require.Contains(t, page, "## "+c.title+"\n")
	}
}

var update = flag.Bool("update", false, "write docs/reference; make reference does it for all packages")

// The pages in the repository must equal those generated from its data.
func TestReferenceOfBenchmarks(t *testing.T) {
	if *update {
		require.NoError(t, writePages(docsDir))
	}
	docs := t.TempDir()
	data := []string{fullFile, soakFile, goalsFile, goalsAgainFile, soakAgainFile, growthFile, tortureFile,
		failoverFile, anchorsFile, guardFile}
	for _, c := range csvTables {
		data = append(data, c.file)
	}
	for _, name := range append(data, resultsPage, reliabilityPage) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(docs, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(docs, name), []byte(readPage(t, docsDir, name)), 0o600))
	}
	require.NoError(t, writePages(docs))
	for _, name := range []string{resultsPage, reliabilityPage, benchmarksPage, "scalability/points.csv",
		"scalability/cpu.svg", "scalability/latency.svg", "scalability/soak-memory.svg", "performance/anchors.svg"} {
		require.True(t, readPage(t, docsDir, name) == readPage(t, docs, name), "%s is out of date: run make reference", name)
	}
}

// Each number that was written by hand into a page of results must equal a benchmark's.
func TestTheFiguresOfPeopleAreThoseOfTheData(t *testing.T) {
	number := regexp.MustCompile(`\d+(,\d{3})*(\.\d+)?`)
	of := func(text string) map[string]bool {
		found := map[string]bool{}
		for _, n := range number.FindAllString(text, -1) {
			found[n] = true
		}
		return found
	}
	known := of(readPage(t, docsDir, benchmarksPage))
	text := block.ReplaceAllString(readPage(t, docsDir, resultsPage), "")
	figures := of(regexp.MustCompile("`[^`]*`").ReplaceAllString(text, ""))
	require.Greater(t, len(figures), 5)
	for n := range figures {
		require.True(t, known[n], "%s: no benchmark has %s", resultsPage, n)
	}
	restarts := readPage(t, docsDir, reliabilityPage)
	_, restarts, _ = strings.Cut(restarts, "**Restarts.**")
	restarts, _, _ = strings.Cut(restarts, "**Backups.**")
	for n := range of(restarts) {
		require.True(t, known[n], "%s: no restart took %s", reliabilityPage, n)
	}
}
