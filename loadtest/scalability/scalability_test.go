package scalability

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/load/scenario"
	"outcry/loadtest/sweep"
)

func TestOnlyTablesAreReplaced(t *testing.T) {
	page := "# Title\n<!-- table: a -->\nold\nold\n<!-- end -->\ntext of people\n<!-- table: b -->\n<!-- end -->\n"
	want := "# Title\n<!-- table: a -->\nnew\n<!-- end -->\ntext of people\n<!-- table: b -->\n1\n2\n<!-- end -->\n"
	tables := map[string]string{"a": "new\n", "b": "1\n2\n"}
	got, err := Refresh(page, tables)
	require.NoError(t, err)
	require.Equal(t, want, got)
	again, err := Refresh(got, tables)
	require.NoError(t, err)
	require.Equal(t, want, again)
	_, err = Refresh(page, map[string]string{"a": ""})
	require.ErrorContains(t, err, `there is no table "b"`)
}

func TestResultsAreWrittenAndReadAgain(t *testing.T) {
	docs := t.TempDir()
	page := filepath.Join(docs, "SCALABILITY.md")
	require.NoError(t, os.WriteFile(page, []byte("<!-- table: about -->\n<!-- end -->\n<!-- table: hot -->\n<!-- end -->\n<!-- table: soak -->\n<!-- end -->\n"), 0o600))
	curve := make([]float64, len(sweep.Quantiles))
	r := &sweep.Report{Command: "go run ./loadtest report", Machine: "a machine", Revision: "abc", Repetitions: 1, Points: []*sweep.Point{
		{Scenario: "hot", Params: scenario.Params{Clients: 64}, GOMAXPROCS: 1, Requests: 30, Rate: 1234567, Curve: curve, Agrees: true},
		{Scenario: "hot", Params: scenario.Params{Clients: 64}, GOMAXPROCS: 2, Requests: 30, Rate: 2469134, Curve: curve, Differs: "a cent"},
	}}
	require.NoError(t, Write(docs, r))
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(b), "| 64 clients | 1 | 1,234,567 (1,234,567 to 1,234,567) | 1.00 |")
	require.Contains(t, string(b), "| 64 clients | 2 | 2,469,134 (2,469,134 to 2,469,134) | 2.00 |")
	require.Contains(t, string(b), "2 runs, 1 of each, on a machine")
	require.Contains(t, string(b), "or said something else than was expected: 1.")
	require.Contains(t, string(b), "Not measured yet.", "there is no soak")
	got, err := Load(docs)
	require.NoError(t, err)
	require.Equal(t, r.Points, got.Points)
	require.FileExists(t, filepath.Join(docs, "scalability", "points.csv"))
	require.FileExists(t, filepath.Join(docs, "scalability", "cpu.svg"))
	require.ErrorContains(t, Write(t.TempDir(), r), "SCALABILITY.md")
}

// The page in the repository has a place for every scenario.
func TestThePageHasEveryScenario(t *testing.T) {
	b, err := os.ReadFile("../../docs/SCALABILITY.md")
	require.NoError(t, err)
	for name := range tables(&sweep.Report{Points: []*sweep.Point{{}}}, nil) {
		require.Contains(t, string(b), "<!-- table: "+name+" -->\n")
	}
}
