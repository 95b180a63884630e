package bench

import (
	"bytes"
	"os"
	"path/filepath"
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
	page := filepath.Join(docs, "SCALABILITY.md")
	require.NoError(t, os.WriteFile(page, []byte("<!-- table: about -->\n<!-- end -->\n<!-- table: hot -->\n<!-- end "+
		"-->\n<!-- table: soak -->\n<!-- end -->\n"), 0o600))
	curve := make([]float64, len(load.Quantiles))
	r := &Data{Command: "go run ./loadtest bench full", Machine: "a machine", Revision: "abc", Repetitions: 1,
		Points: []*Point{
			{Scenario: "hot", Params: scenario.Params{Clients: 64}, GOMAXPROCS: 1,
				Summary: load.Summary{Requests: 30, Rate: 1234567, Curve: curve}, Agrees: true},
			{Scenario: "hot", Params: scenario.Params{Clients: 64}, GOMAXPROCS: 2,
				Summary: load.Summary{Requests: 30, Rate: 2469134, Curve: curve}, Differs: "a cent"},
		}}
	require.NoError(t, os.Mkdir(filepath.Join(docs, "scalability"), 0o700))
	require.NoError(t, r.Save(filepath.Join(docs, FullFile)))
	require.NoError(t, Pages(docs))
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(b), "| 64 clients | 1 | 1,234,567 (1,234,567 to 1,234,567) | 1.00 |")
	require.Contains(t, string(b), "| 64 clients | 2 | 2,469,134 (2,469,134 to 2,469,134) | 2.00 |")
	require.Contains(t, string(b), "2 runs, 1 of each, on a machine")
	require.Contains(t, string(b), "or said something else than was expected: 1.")
	require.Contains(t, string(b), "Not measured yet.", "there is no soak")
	got, err := Load(filepath.Join(docs, FullFile))
	require.NoError(t, err)
	require.Equal(t, r.Points, got.Points)
	require.FileExists(t, filepath.Join(docs, "scalability", "points.csv"))
	require.FileExists(t, filepath.Join(docs, "scalability", "cpu.svg"))
	require.NoError(t, os.Remove(page))
	require.ErrorContains(t, Pages(docs), "SCALABILITY.md")
	require.NoError(t, Pages(t.TempDir()), "nothing was measured")
}

// The page in the repository has a place for every scenario.
func TestThePageHasEveryScenario(t *testing.T) {
	b, err := os.ReadFile("../../docs/SCALABILITY.md")
	require.NoError(t, err)
	for name := range tables(&Data{Points: []*Point{{}}}, nil) {
		require.Contains(t, string(b), "<!-- table: "+name+" -->\n")
	}
}

// The pages in the repository are those that its data make.
func TestThePagesAreOfTheirData(t *testing.T) {
	docs := t.TempDir()
	for _, name := range []string{FullFile, SoakFile, GoalsFile, scalabilityPage, performancePage} {
		b, err := os.ReadFile(filepath.Join("../../docs", name))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(docs, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(docs, name), b, 0o600))
	}
	require.NoError(t, Pages(docs))
	for _, name := range []string{scalabilityPage, performancePage, "scalability/points.csv", "scalability/cpu.svg",
		"scalability/latency.svg", "scalability/soak-memory.svg"} {
		was, err := os.ReadFile(filepath.Join("../../docs", name))
		require.NoError(t, err)
		is, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(was, is), "%s is another one: go run ./loadtest pages", name)
	}
}
