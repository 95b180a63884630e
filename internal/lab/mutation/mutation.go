// Package mutation proves that the tests can fail. It breaks guarantees of the exchange on purpose, one
// at a time, in a build with an edited source file, and requires that the torture run or the tests detect
// it.
package mutation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/torture"
)

// Mutation is a bug that breaks one guarantee.
type Mutation struct {
	Name    string
	Promise string           // the guarantee, and how the mutation violates it
	noticed []*regexp.Regexp // one of these must match the reported failure
	edits   []harness.Edit
	// How the mutation must be detected: by a torture run with plan, by one of a cluster of three nodes
	// with the plan cluster, by readers of books and feeds within the time books, or by the test of pkg
	// that matches test.
	plan, cluster map[string]int
	books         time.Duration
	pkg, test     string
}

// Cluster reports whether detection needs a cluster of three nodes. If so, harness.Isolate must be called
// before Try.
func (m *Mutation) Cluster() bool { return m.cluster != nil }

// All returns all mutations in mutations.txt. The error names a malformed line.
func All() ([]Mutation, error) { return read(text) }

// The outcomes of a mutation that no test detected, and of one for which something else failed.
var (
	errNotCaught     = errors.New("NOT CAUGHT")
	errSomethingElse = errors.New("CAUGHT BY ACCIDENT")
)

// testTimeout is how long the tests of a package may run.
const testTimeout = 5 * time.Minute

// Try tries a mutation and returns the first sentence of the failure that detected it. It returns an
// error if nothing failed, if the failure is not one that the mutation should cause, or if the mutation
// could not be tried. Progress is written to out.
func (m Mutation) Try(ctx context.Context, seed uint64, out io.Writer) (caught string, err error) {
	dir, err := os.MkdirTemp("", "outcry-mutation-")
	if err != nil {
		return "", fmt.Errorf("mutation: %w", err)
	}
	defer os.RemoveAll(dir)
	if m.cluster != nil {
		return m.tryCluster(ctx, seed, dir, out)
	}
	if m.books > 0 {
		return m.tryBooks(ctx, seed, dir, out)
	}
	if m.plan == nil {
		return m.tryTests(ctx, dir)
	}
	_, err = torture.Run(ctx, torture.Server, torture.Options{Seed: seed, Plan: m.plan, Clients: 12, Load: time.Second,
		Edits: m.edits, Dir: dir, Out: out})
	var finding *torture.Finding
	switch {
	case errors.As(err, &finding):
		first, _, _ := strings.Cut(finding.Error(), "\n")
		return m.judge("torture: "+first, finding.Error())
	case err != nil:
		return "", err
	}
	return "", fmt.Errorf("%s: %w by %v", m.Name, errNotCaught, m.plan)
}

// tryCluster tortures a cluster of three nodes with the mutation.
func (m Mutation) tryCluster(ctx context.Context, seed uint64, dir string, out io.Writer) (caught string, err error) {
	_, err = torture.Run(ctx, torture.Cluster, torture.Options{Seed: seed, Plan: m.cluster, Clients: 8,
		Load: time.Second, Edits: m.edits, Dir: dir, Out: out})
	if finding, ok := errors.AsType[*torture.Finding](err); ok {
		first, _, _ := strings.Cut(finding.Error(), "\n")
		return m.judge("torture -cluster: "+first, finding.Error())
	}
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: %w by %v", m.Name, errNotCaught, m.cluster)
}

// tryBooks runs readers of books and feeds against an exchange with the mutation.
func (m Mutation) tryBooks(ctx context.Context, seed uint64, dir string, out io.Writer) (caught string, err error) {
	_, err = torture.Run(ctx, torture.Readers, torture.Options{Duration: m.books, Clients: 8, Rate: 500,
		SymbolsTraded: 3, Watched: 4, Break: time.Second, Seed: seed, Edits: m.edits, Dir: dir, Out: out})
	if finding, ok := errors.AsType[*torture.Finding](err); ok {
		first, _, _ := strings.Cut(finding.Error(), "\n")
		return m.judge(first, finding.Error())
	}
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: %w by readers within %s", m.Name, errNotCaught, m.books)
}

// tryTests runs the package's tests with the mutation.
func (m Mutation) tryTests(ctx context.Context, dir string) (caught string, err error) {
	root, err := harness.Root(ctx)
	if err != nil {
		return "", err
	}
	overlay, err := harness.Overlay(root, dir, m.edits)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "full", "-run", m.test, m.pkg)
	cmd.Dir = root
	// GOFLAGS also applies the mutation to the programs that tests build.
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	output, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return m.judge(fmt.Sprintf("go test %s: %s", m.pkg, name), name)
		}
	}
	if err != nil {
		return "", fmt.Errorf("mutation: %s: %w: %s", m.Name, err, output)
	}
	return "", fmt.Errorf("%s: %w by go test -run %s %s", m.Name, errNotCaught, m.test, m.pkg)
}

// judge returns caught if said matches one of the failures that the mutation should cause.
func (m Mutation) judge(caught, said string) (string, error) {
	if !slices.ContainsFunc(m.noticed, func(r *regexp.Regexp) bool { return r.MatchString(said) }) {
		return "", fmt.Errorf("%s: %w: %s, and not %q", m.Name, errSomethingElse, said, m.noticed)
	}
	return caught, nil
}
