package torture

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// fault is one way to break an exchange of type S.
type fault[S any] struct {
	name        string // in a plan
	about       string
	short, long int // rounds in the plans of these names
	inject      func(S, context.Context) error

	// Without early and quiet the fault is injected after clients have traded for a while.
	early  bool // injected as soon as clients trade
	quiet  bool // injected before clients trade, since they would be blocked
	ends   bool // the fault ends the server, which must be started again
	judged bool // the longest time without an answer is judged after the fault
	attack *attack
}

// find returns the fault with a name that a plan has.
func find[S any](all []fault[S], name string) *fault[S] {
	return &all[slices.IndexFunc(all, func(f fault[S]) bool { return f.name == name })]
}

// check verifies one property of the exchange.
type check struct {
	name string
	do   func(context.Context) error
}

// runChecks runs the checks one after another until one fails. The error names the check.
func runChecks(ctx context.Context, all []check) error {
	for _, c := range all {
		if err := c.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// Kind is a kind of exchange that can be tortured.
type Kind struct {
	name     string                    // part of the name of the temporary directory
	about    map[string]string         // descriptions of the faults, by name
	plans    map[string]map[string]int // rounds of each fault, by the name of the plan
	planned  bool                      // a run has a plan, and its progress lines name the fault
	schedule func(o Options, random *rand.Rand) (faults []string)
	command  func(o Options, plan string) string // the command that repeats a run
	begin    func(r *run, random *rand.Rand) system
}

// Faults returns a description of each fault, by name.
func (k *Kind) Faults() map[string]string { return maps.Clone(k.about) }

// described returns the descriptions of faults, by name. It panics if two have one name.
func described[S any](all []fault[S]) map[string]string {
	about := map[string]string{}
	for _, f := range all {
		if about[f.name] != "" {
			panic("torture: two faults have the name " + f.name)
		}
		about[f.name] = f.about
	}
	return about
}

// named returns the plans short and long.
func named[S any](all []fault[S]) map[string]map[string]int {
	short, long := map[string]int{}, map[string]int{}
	for _, f := range all {
		if f.short > 0 {
			short[f.name] = f.short
		}
		long[f.name] = f.long
	}
	return map[string]map[string]int{"short": short, "long": long}
}

// ParsePlan parses rounds of faults, such as "kill=8,stop=2". "abuse=1" means one round of each fault whose name
// begins with abuse. In the plans "short" and "long", each fault has as many rounds as its definition says. The
// error names the wrong part.
func (k *Kind) ParsePlan(plan string) (map[string]int, error) {
	if rounds, ok := k.plans[plan]; ok {
		return maps.Clone(rounds), nil
	}
	rounds := map[string]int{}
	for part := range strings.SplitSeq(plan, ",") {
		name, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		known := false
		for fault := range k.about {
			if fault == name || name == "abuse" && isAbuse(fault) {
				rounds[fault] += n
				known = true
			}
		}
		if !known || err != nil || n < 0 {
			return nil, fmt.Errorf("torture: %q is not fault=rounds", part)
		}
	}
	return rounds, nil
}

// shuffled returns the rounds of the plan in random order.
func shuffled(o Options, random *rand.Rand) (rounds []string) {
	for _, name := range slices.Sorted(maps.Keys(o.Plan)) {
		rounds = append(rounds, slices.Repeat([]string{name}, o.Plan[name])...)
	}
	random.Shuffle(len(rounds), func(i, j int) { rounds[i], rounds[j] = rounds[j], rounds[i] })
	return rounds
}
