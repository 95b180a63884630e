// Package mutation proves that the proofs can fail: it breaks promises of the
// exchange on purpose, one at a time, in a copy of a source file that only the
// build sees, and demands that the torture run or the tests notice.
package mutation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"outcry/loadtest/harness"
	"outcry/loadtest/torture"
)

// Bug is one promise that is broken.
type Bug struct {
	Name    string
	Promise string // what no longer holds
	noticed string // a regular expression: what has to be said of it
	edits   []harness.Edit
	// plan is the torture run that has to fail. Where it is nil, the test of
	// pkg that matches test has to.
	plan      map[string]int
	pkg, test string
}

// Bugs returns all of them.
func Bugs() []Bug { return bugs }

// Find returns the bug of that name.
func Find(name string) (Bug, bool) {
	for _, b := range bugs {
		if b.Name == name {
			return b, true
		}
	}
	return Bug{}, false
}

// Results for a bug that nothing noticed, or that something else seems to have ended.
var (
	errNotCaught     = errors.New("NOT CAUGHT")
	errSomethingElse = errors.New("CAUGHT BY ACCIDENT")
)

// testTimeout bounds a run of tests.
const testTimeout = 5 * time.Minute

// Try plants a bug and returns the first sentence of what noticed it. The error
// says that nothing did, that what was noticed is not what the bug leads to, or
// that it could not be tried. Files of the run are in
// dir; progress goes to out.
func (b Bug) Try(ctx context.Context, seed uint64, dir string, out io.Writer) (caught string, err error) {
	if b.plan == nil {
		return b.tryTests(ctx, dir)
	}
	_, err = torture.Run(ctx, torture.Options{Seed: seed, Plan: b.plan, Clients: 12, Load: time.Second, Edits: b.edits, Dir: dir, Out: out})
	var finding *torture.Finding
	switch {
	case errors.As(err, &finding):
		return b.judge("torture: "+firstLine(finding.Error()), finding.Error())
	case err != nil:
		return "", err
	}
	return "", fmt.Errorf("%s: %w by %v", b.Name, errNotCaught, b.plan)
}

// tryTests runs the package's tests with the bug.
func (b Bug) tryTests(ctx context.Context, dir string) (caught string, err error) {
	root, err := harness.Root(ctx)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("mutation: %w", err)
	}
	overlay, err := harness.Overlay(root, dir, b.edits)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-run", b.test, b.pkg)
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return b.judge(fmt.Sprintf("go test %s: %s", b.pkg, name), name)
		}
	}
	if err != nil {
		return "", fmt.Errorf("mutation: %s: %w: %s", b.Name, err, output)
	}
	return "", fmt.Errorf("%s: %w by go test -run %s %s", b.Name, errNotCaught, b.test, b.pkg)
}

// judge returns what caught the bug, if it says what the bug has to lead to.
func (b Bug) judge(caught, said string) (string, error) {
	if !regexp.MustCompile(b.noticed).MatchString(said) {
		return "", fmt.Errorf("%s: %w: %s, and not %q", b.Name, errSomethingElse, said, b.noticed)
	}
	return caught, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
