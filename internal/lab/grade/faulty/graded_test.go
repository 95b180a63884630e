package faulty

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/target"
	"outcry/internal/lab/model"
)

// gradedPage is the page that shows, for each fault, the share of points left in each group.
const gradedPage = "../../../../docs/reference/GRADED.md"

// A server with a fault must get less than faultMost of the points of the fault's group, and at least otherLeast of
// each other group's.
const (
	faultMost  = 0.97
	otherLeast = 0.9
)

// always are the faults that every run of the tests grades.
var always = []string{"priority-lost", "seller-unpaid", "racing-balance"}

// row is the grade of a server: the share of points in each group, NaN if none of its cases counts.
type row struct {
	shares []float64
	score  float64
}

// groups returns the names of the groups that have a weight.
func groups() (names []string) {
	for _, g := range script.Groups {
		if g.Weight > 0 {
			names = append(names, g.Name)
		}
	}
	return names
}

func rowOf(r *grade.Result) (all row) {
	for _, name := range groups() {
		share := math.NaN()
		for _, g := range r.Groups {
			if g.Name == name && g.Max > 0 {
				share = g.Points / g.Max
			}
		}
		all.shares = append(all.shares, share)
	}
	all.score = r.Score
	return all
}

// cells returns a row as the cells of the page.
func (r row) cells() (cells []string) {
	for _, share := range r.shares {
		cell := strconv.FormatFloat(share, 'f', 2, 64)
		switch {
		case math.IsNaN(share):
			cell = "–"
		case share > 1-1e-9:
			cell = "1"
		case cell == "1.00":
			cell = "0.99"
		}
		cells = append(cells, cell)
	}
	return append(cells, strconv.FormatFloat(r.score, 'f', 2, 64))
}

// attached starts a server in this process, and returns it as a target that runs already.
func attached(t *testing.T, o Options) target.Target {
	t.Helper()
	to, err := target.Attached(begin(t, o))
	require.NoError(t, err)
	return to
}

// started returns a server that runs as a process, which can be killed.
func started(t *testing.T, o Options) target.Target {
	t.Helper()
	o.Journal = "journal"
	command, err := Command(os.Args[0], o)
	require.NoError(t, err)
	to, err := target.Command(target.Options{Command: `cd "$TMPDIR" && ` + command, User: strconv.Itoa(os.Getuid())})
	require.NoError(t, err)
	return to
}

// gradeOf grades a server with the built-in cases.
func gradeOf(t *testing.T, to target.Target, within time.Duration) *grade.Result {
	t.Helper()
	cases, err := script.Builtin()
	require.NoError(t, err)
	profile := grade.DefaultProfile()
	profile.Time = within
	r, err := grade.Run(t.Context(), grade.Options{Target: to, Cases: cases, Profile: profile})
	require.NoError(t, err)
	t.Logf("%s: %.2f in %.1f s", t.Name(), r.Score, r.Seconds)
	return r
}

// gradeTime is the default of --time.
const gradeTime = 180 * time.Second

// triesMost is how often a fault is graded, at most, until the result is as required: if the machine stalls for
// seconds, a case can exceed its time.
const triesMost = 3

// gradeFault grades a server with one fault. It requires that the fault costs points in its own group and in
// no other, and that the row equals that of the page, if page is given.
func gradeFault(t *testing.T, f Fault, page []string) (graded row) {
	var wrong string
	for range triesMost {
		if graded, wrong = gradeOnce(t, f); page != nil && !slices.Equal(page, graded.cells()) {
			wrong += fmt.Sprintf("\nthe page has %s\nit is now    %s", page, graded.cells())
		}
		if wrong == "" {
			return graded
		}
		t.Log(wrong)
	}
	t.Errorf("%s (%s):%s", f.Name, f.Tell, wrong)
	return graded
}

// gradeOnce grades a server with one fault, and returns its row, and a description of the error if the row is wrong.
func gradeOnce(t *testing.T, f Fault) (graded row, wrong string) {
	to := attached
	if f.Group == "durability" || f.Name == "silence-ends" { // these need a server that can be restarted
		to = started
	}
	result := gradeOf(t, to(t, Options{Faults: []string{f.Name}}), gradeTime)
	graded = rowOf(result)
	for i, group := range groups() {
		share := graded.shares[i]
		switch {
		case group == f.Group && !(share < faultMost):
			wrong += fmt.Sprintf("\nit leaves %.3f of %s, its group", share, group)
		case group != f.Group && share < otherLeast:
			wrong += fmt.Sprintf("\nit leaves %.3f of %s, which is not its group:%s", share, group, failures(result, group))
		}
	}
	return graded, wrong
}

// failures lists the failed cases of a group, or of all groups if group is "".
func failures(r *grade.Result, group string) string {
	var b strings.Builder
	for _, c := range r.Cases {
		if (c.Group == group || group == "") && c.Status != script.Pass && c.Status != script.Skip {
			fmt.Fprintf(&b, "\n%s %s: %s", c.Status, c.Name, c.Message)
		}
	}
	return b.String()
}

// requireFull requires that a server has all points.
func requireFull(t *testing.T, r *grade.Result) {
	t.Helper()
	require.Empty(t, failures(r, ""))
	require.InDelta(t, 100, r.Score, 1e-9)
	for i, share := range rowOf(r).shares {
		if group := groups()[i]; group != "durability" {
			require.Equal(t, 1.0, share, group)
		}
	}
}

// The test grades the reference model twice, on the sockets of this package, and the server without a fault as a
// process that is killed.
func TestTheTwinHasAllPoints(t *testing.T) {
	t.Parallel()
	twin := begin(t, Options{Twin: model.New().Do})
	for range 2 {
		to, err := target.Attached(twin)
		require.NoError(t, err)
		requireFull(t, gradeOf(t, to, gradeTime))
	}
	r := gradeOf(t, started(t, Options{}), gradeTime)
	requireFull(t, r)
	require.NotContains(t, rowOf(r).cells(), "–", "each group counts")
}

// The test grades a server that ends when a connection is closed without a frame.
func TestTheFirstConnectionOfARunCarriesAFrame(t *testing.T) {
	t.Parallel()
	cases, err := script.Builtin()
	require.NoError(t, err)
	cases = slices.DeleteFunc(cases, func(c *script.Case) bool { return c.Group != "orders" })
	o := Options{Faults: []string{"silence-ends"}}
	for _, to := range []target.Target{attached(t, o), started(t, o)} {
		r, err := grade.Run(t.Context(), grade.Options{Target: to, Cases: cases})
		require.NoError(t, err)
		require.Empty(t, failures(r, ""))
		require.InDelta(t, 100, r.Score, 1e-9)
	}
}

// pageRows returns the rows of the page, by name, with the header row first.
func pageRows(t *testing.T) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile(gradedPage)
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), " | ") {
			cells = append(cells, strings.Trim(cell, " `"))
		}
		rows = append(rows, cells)
	}
	require.NotEmpty(t, rows)
	return rows
}

// head is that of the page's table.
func head() []string {
	return append(append([]string{"fault", "what the server does"}, groups()...), "score")
}

// TestReferenceOfFaults compares the page's rows and columns with the faults and groups that there are,
// and its figures with those of three servers.
func TestReferenceOfFaults(t *testing.T) {
	t.Parallel()
	rows := pageRows(t)
	require.Equal(t, head(), rows[0])
	names, figures := []string{}, map[string][]string{}
	for _, r := range rows[1:] {
		names = append(names, r[0]+": "+r[1])
		figures[r[0]] = r[2:]
	}
	var wanted []string
	for _, f := range Faults {
		wanted = append(wanted, f.Name+": "+f.Tell)
	}
	require.Equal(t, wanted, names)
	for _, f := range Faults {
		for _, name := range always {
			if f.Name == name {
				t.Run(f.Name, func(t *testing.T) {
					t.Parallel()
					gradeFault(t, f, figures[f.Name]) // if the page is wrong, the long form writes it: -update
				})
			}
		}
	}
}
