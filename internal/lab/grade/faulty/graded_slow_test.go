//go:build slow

package faulty

import (
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

var update = flag.Bool("update", false, "write docs/reference/GRADED.md")

// The test grades a server with each fault, and with -update writes the page.
func TestEachFaultCostsItsGroup(t *testing.T) {
	var mu sync.Mutex
	graded := map[string]row{}
	t.Run("faults", func(t *testing.T) {
		for _, f := range Faults {
			t.Run(f.Name, func(t *testing.T) {
				t.Parallel()
				r := gradeFault(t, f, nil)
				mu.Lock()
				defer mu.Unlock()
				graded[f.Name] = r
			})
		}
	})
	if *update && len(graded) == len(Faults) {
		writePage(t, graded)
	}
}

// writePage writes the page with the results of all faults.
func writePage(t *testing.T, graded map[string]row) {
	rows := [][]string{head()}
	for _, f := range Faults {
		rows = append(rows, append([]string{"`" + f.Name + "`", f.Tell}, graded[f.Name].cells()...))
	}
	require.NoError(t, doctest.Reference(gradedPage, `# What faults cost

Made by `+"`go test -tags slow -run TestEachFaultCostsItsGroup ./internal/lab/grade/faulty -update`"+`,
which `+"`make prove`"+` runs: `+"`outcry-lab grade`"+` grades a server of ours with one fault at a time. A figure is
the share of the group's points that the fault leaves. It is below 0.97 in the group of the fault, and at least
0.9 in each other; – is a group that was not played, since the server could not be killed.

`+doctest.Table(rows), true))
}

// The highest score of a hostile server, and the longest time of its run.
const (
	hostileMost = 10
	hostileTime = 60 * time.Second
	hostileLate = 35 * time.Second // the run's own time plus what a busy machine adds
)

// The test grades the hostile servers that never answer correctly.
func TestTheHostileAreWorthNothing(t *testing.T) {
	for _, name := range Hostilities {
		if hostile[name] == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			r := gradeOf(t, attached(t, Options{Hostile: name}), hostileTime)
			require.LessOrEqual(t, r.Score, float64(hostileMost))
			require.Less(t, time.Since(begun), hostileTime+hostileLate)
		})
	}
}

// fragileLeast is the least score of a server that is correct but does not survive malformed frames. It is high
// because the cases with malformed frames come late, and the server is restarted.
const fragileLeast = 85

// The test grades the servers that are correct until they get a malformed frame.
func TestTheFragileAreStartedAnew(t *testing.T) {
	for _, name := range []string{"crashes", "hangs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := gradeOf(t, started(t, Options{Hostile: name}), gradeTime)
			require.GreaterOrEqual(t, r.Score, float64(fragileLeast), failures(r, ""))
			require.Less(t, r.Score, 100.0)
			require.Positive(t, r.Restarts)
		})
	}
}
