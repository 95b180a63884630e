package core

import (
	"crypto/rand"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

var (
	simSeeds = flag.Int("seeds", budget.Of(500), "histories of TestSimulation")
	simSeed  = flag.Uint64("seed", 1, "seed of TestSimulation's first history, and of each test's first cluster")
)

// history plays the history of one seed. Package raft draws from crypto/rand, which here returns
// bytes from the seed.
func history(seed uint64, p plant) *sim {
	s := newSim(seed, p)
	reader := rand.Reader
	rand.Reader = s
	defer func() { rand.Reader = reader }()
	s.err = s.run()
	return s
}

// TestSimulation plays histories of a cluster with all faults of network, disks, clocks, processes and operators that
// the simulation supports, and checks the promises of a cluster. The same seed gives the same history.
func TestSimulation(t *testing.T) {
	answered, leaders := 0, 0
	for seed := *simSeed; seed < *simSeed+uint64(*simSeeds); seed++ {
		s := history(seed, plant{})
		require.NoError(t, s.err, "the weather is %q; again: -run '^TestSimulation$' -seeds 1 -seed %d", s.weather.name, seed)
		answered += s.truth.answered
		leaders += len(s.truth.leaders)
	}
	t.Logf("%d histories from seed %d: %d answers, %d leaderships", *simSeeds, *simSeed, answered, leaders)
	require.Greater(t, answered, 10**simSeeds)
}

func TestASeedIsOneHistory(t *testing.T) {
	for seed := uint64(1); seed <= uint64(budget.Of(30)); seed++ {
		a, b := history(seed, plant{}), history(seed, plant{})
		require.Equal(t, a.trace[0].lines, b.trace[0].lines, "seed %d", seed)
		require.Equal(t, a.hash, b.hash, "seed %d", seed)
	}
}

// TestSimulationFindsPlantedBugs checks that each planted bug is found by a violation, not only
// because the cluster does not recover.
func TestSimulationFindsPlantedBugs(t *testing.T) {
	const seedsMax = 300
	bugs := []struct {
		name string
		plant
	}{
		{"vote not synced", plant{voteNotSynced: true}},
		{"answer before sync", plant{answerBeforeSync: true}},
		{"no fence and no step-down", plant{noFence: true, noStepDown: true}},
		{"chain off", plant{chainOff: true}},
		{"applied twice", plant{appliedTwice: true}},
		{"compacted too early", plant{compactedTooEarly: true}},
		{"learner counted", plant{learnerCounted: true}},
		{"lost disk votes", plant{lostDiskVotes: true}},
		{"no confirm of reads", plant{noConfirm: true}},
	}
	for _, bug := range bugs[:budget.UnlessRaced(len(bugs))] {
		t.Run(bug.name, func(t *testing.T) {
			for seed := uint64(1); seed < seedsMax; seed++ {
				if s := history(seed, bug.plant); s.err != nil && !s.stuck {
					t.Logf("found by seed %d (%s): %.200s", seed, s.weather.name, s.err)
					return
				}
			}
			t.Fatalf("not found by %d seeds", seedsMax-1)
		})
	}
}

// TestEitherFenceIsEnough checks that either of two protections is sufficient: a deposed leader
// steps down, or the term in its proposals makes the other nodes skip them.
func TestEitherFenceIsEnough(t *testing.T) {
	for _, p := range []plant{{noFence: true}, {noStepDown: true}} {
		for seed := uint64(1); seed <= uint64(budget.Of(60)); seed++ {
			if s := history(seed, p); !s.stuck {
				require.NoError(t, s.err)
			}
		}
	}
}
