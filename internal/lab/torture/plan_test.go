package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPlanIsParsed(t *testing.T) {
	for _, test := range []struct {
		kind *Kind
		plan string
		want map[string]int
	}{
		{Server, "kill=1,stop=2,kill=3", map[string]int{"kill": 4, "stop": 2}},
		{Cluster, "kill-leader=8,alone=2", map[string]int{"kill-leader": 8, "alone": 2}},
		{Readers, "kill=1", map[string]int{"kill": 1}},
		{Server, "kill-leader=1", nil},
		{Cluster, "abuse=1", nil},
		{Server, "kill", nil},
		{Server, "kill=-1", nil},
		{Server, "", nil},
	} {
		plan, err := test.kind.ParsePlan(test.plan)
		require.Equal(t, test.want, plan, test.plan)
		require.Equal(t, test.want == nil, err != nil, test.plan)
	}
	plan, err := Server.ParsePlan("abuse=2")
	require.NoError(t, err)
	require.Len(t, plan, len(attacks()))
}

// TestEveryFaultIsWhole checks that each fault has a description, an injection and a name that a plan can contain.
func TestEveryFaultIsWhole(t *testing.T) {
	require.Len(t, Server.Faults(), len(serverFaults))
	require.Len(t, Cluster.Faults(), len(clusterFaults))
	requireWhole(t, serverFaults)
	requireWhole(t, clusterFaults)
	requireWhole(t, readerFaults[1:])
}

func requireWhole[S any](t *testing.T, all []fault[S]) {
	t.Helper()
	for i := range all {
		f := &all[i]
		require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, f.name)
		require.NotEmpty(t, f.about, f.name)
		require.NotNil(t, f.inject, f.name)
		require.Same(t, f, find(all, f.name))
		require.False(t, f.early && f.quiet, f.name)
	}
}

// TestPlansAreWhole checks that the long plans, and the short plan of a server, have every fault.
func TestPlansAreWhole(t *testing.T) {
	for _, test := range []struct {
		kind *Kind
		plan string
	}{{Server, "short"}, {Server, "long"}, {Cluster, "long"}} {
		plan, err := test.kind.ParsePlan(test.plan)
		require.NoError(t, err)
		for fault := range test.kind.Faults() {
			require.Positive(t, plan[fault], "%s leaves out %s", test.plan, fault)
		}
	}
	plan, err := Server.ParsePlan("long")
	require.NoError(t, err)
	require.Equal(t, 185, plan["kill"])
	plan, err = Cluster.ParsePlan("short")
	require.NoError(t, err)
	require.Equal(t, 2, plan["kill-leader"])
	require.NotContains(t, plan, "flip-byte")
	plan, err = Server.ParsePlan("abuse=2,abuse-dust=1,kill=1")
	require.NoError(t, err)
	require.Equal(t, 3, plan["abuse-dust"])
	require.Equal(t, 2, plan["abuse-frame"])
	require.NotContains(t, plan, "stop")
}

func TestTwoFaultsOfOneNameAreABug(t *testing.T) {
	require.Panics(t, func() { described([]fault[*server]{{name: "x", about: "a"}, {name: "x", about: "b"}}) })
}

func TestARunHasTheRoundsOfItsPlanInAnOrderOfItsSeed(t *testing.T) {
	o := Options{Plan: map[string]int{"a": 3, "b": 2}}
	rounds := shuffled(o, rand.New(rand.NewPCG(1, 0)))
	require.ElementsMatch(t, []string{"a", "a", "a", "b", "b"}, rounds)
	require.Equal(t, rounds, shuffled(o, rand.New(rand.NewPCG(1, 0))))
	require.Equal(t, []string{"kill", "kill", "none"}, Readers.schedule(Options{Kills: 2}, nil))
}

func TestTheFirstCheckThatFailsIsNamed(t *testing.T) {
	var ran []string
	step := func(name string, err error) check {
		return check{name, func(context.Context) error { ran = append(ran, name); return err }}
	}
	err := runChecks(t.Context(), []check{step("one", nil), step("two", errors.New("it is wrong")), step("three", nil)})
	require.EqualError(t, err, "two: it is wrong")
	require.Equal(t, []string{"one", "two"}, ran)
}
