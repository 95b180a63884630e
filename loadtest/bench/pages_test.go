package bench

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/load"
	"outcry/internal/load/scenario"
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
	require.ErrorContains(t, err, `there is no table "b"`)
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
	r := &Data{Command: "go run ./loadtest bench full", Machine: "a machine", Revision: "abc", Repetitions: 1,
		Points: []*Point{point(1, 1234567, ""), point(2, 2469134, "a cent"), point(4, 3703701, "")}}
	require.NoError(t, os.Mkdir(filepath.Join(docs, "scalability"), 0o700))
	require.NoError(t, r.Save(filepath.Join(docs, fullFile)))
	require.NoError(t, writePages(docs))
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(b), "Measured on a machine")
	require.Contains(t, string(b), "| the same in one symbol | 1,234,567 | 2,469,134 | 3,703,701 |")
	require.Contains(t, string(b), "Not measured yet.", "there are no goals")
	b, err = os.ReadFile(filepath.Join(docs, benchmarksPage))
	require.NoError(t, err)
	require.Contains(t, string(b), "| 64 clients × 16 | 1 | 1,234,567 (1,234,567 to 1,234,567) | 1.00 |")
	require.Contains(t, string(b), "| 64 clients × 16 | 2 | 2,469,134 (2,469,134 to 2,469,134) | 2.00 |")
	require.Contains(t, string(b), "3 runs, 1 of each, on a machine")
	require.Contains(t, string(b), "or said something else than was expected: 1.")
	require.NotContains(t, string(b), "## Goals")
	got, err := loadData(filepath.Join(docs, fullFile))
	require.NoError(t, err)
	require.Equal(t, r.Points, got.Points)
	require.FileExists(t, filepath.Join(docs, "scalability", "points.csv"))
	require.FileExists(t, filepath.Join(docs, "scalability", "cpu.svg"))
	require.NoError(t, os.Remove(page))
	require.ErrorContains(t, writePages(docs), resultsPage)
	require.NoError(t, writePages(t.TempDir()), "nothing was measured")
}

// docsDir is that of the repository.
const docsDir = "../../docs"

func readPage(t *testing.T, docs, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docs, name))
	require.NoError(t, err)
	return string(b)
}

// Each table of results stands in one of the pages.
func TestThePagesHaveEveryTable(t *testing.T) {
	m, err := loadMeasured(docsDir)
	require.NoError(t, err)
	tables := m.resultTables()
	require.NotContains(t, tables["missed"], notKnown)
	pages := readPage(t, docsDir, resultsPage) + readPage(t, docsDir, reliabilityPage)
	for name, text := range tables {
		require.NotEqual(t, notMeasured, text, name)
		require.Equal(t, 1, strings.Count(pages, "<!-- table: "+name+" -->\n"), name)
	}
	for _, x := range shown {
		for _, procs := range []int{1, 2, 4} {
			require.NotNil(t, m.full.cell(x.scenario, x.variant, procs), x.text)
		}
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

// The pages in the repository are those that its data make.
func TestReferenceOfBenchmarks(t *testing.T) {
	if *update {
		require.NoError(t, writePages(docsDir))
	}
	docs := t.TempDir()
	data := []string{fullFile, soakFile, goalsFile, goalsAgainFile, soakAgainFile, growthFile, tortureFile,
		failoverFile}
	for _, c := range csvTables {
		data = append(data, c.file)
	}
	for _, name := range append(data, resultsPage, reliabilityPage) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(docs, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(docs, name), []byte(readPage(t, docsDir, name)), 0o600))
	}
	require.NoError(t, writePages(docs))
	for _, name := range []string{resultsPage, reliabilityPage, benchmarksPage, "scalability/points.csv",
		"scalability/cpu.svg", "scalability/latency.svg", "scalability/soak-memory.svg"} {
		require.True(t, readPage(t, docsDir, name) == readPage(t, docs, name), "%s is out of date: run make reference", name)
	}
}

// Each number that people wrote into a page of results is one of the benchmarks.
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
	require.Greater(t, len(figures), 10)
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
