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

// TestEachFaultCostsItsGroup grades a server with each fault, and writes the page with -update.
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

// writePage writes the page of what each fault was graded with.
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

// What a hostile server is worth at most, and in how long.
const (
	hostileMost = 10
	hostileTime = 60 * time.Second
	hostileLate = 35 * time.Second // the run's own, and what a busy machine adds
)

// TestTheHostileAreWorthNothing grades those that answer nothing that is right.
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

// fragileLeast is what a server that is right, but does not survive junk, has at least: the cases of junk
// come late, and it is started anew.
const fragileLeast = 85

// TestTheFragileAreStartedAnew grades those that are right until something malformed comes.
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
