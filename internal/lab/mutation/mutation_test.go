package mutation

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/torture"
)

// TestEveryMutationFitsTheSource finds edits whose code has changed, which would otherwise be noticed only in the
// long run of the mutations.
func TestEveryMutationFitsTheSource(t *testing.T) {
	root, err := harness.Root(context.Background())
	require.NoError(t, err)
	all, err := All()
	require.NoError(t, err)
	require.Len(t, all, 99)
	page, err := os.ReadFile("../../../docs/RELIABILITY.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("All %d mutations", len(all)))
	names := map[string]bool{}
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			require.NotEmpty(t, b.Promise)
			require.NotEmpty(t, b.noticed)
			require.NotEmpty(t, b.edits)
			require.False(t, names[b.Name])
			names[b.Name] = true
			_, err := harness.Overlay(root, t.TempDir(), b.edits)
			require.NoError(t, err)
			require.NotEqual(t, b.plan == nil && b.cluster == nil && b.books == 0, b.pkg == "", "either a plan or a package")
			if b.pkg != "" {
				requireTests(t, filepath.Join(root, b.pkg), &b)
			}
			for fault := range b.cluster {
				require.Contains(t, torture.Cluster.Faults(), fault)
			}
			for fault := range b.plan {
				require.Contains(t, torture.Server.Faults(), fault)
			}
		})
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// requireTests checks that each test expression of a mutation matches a test in dir: a renamed test would
// detect nothing.
func requireTests(t *testing.T, dir string, b *Mutation) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	top, _, _ := strings.Cut(b.test, "/") // a subtest's name follows
	runs := regexp.MustCompile(top)
	var names []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range testFunc.FindAllSubmatch(source, -1) {
			if runs.Match(m[1]) {
				names = append(names, string(m[1]))
			}
		}
	}
	for _, noticed := range b.noticed {
		require.True(t, slices.ContainsFunc(names, noticed.MatchString), "no test that runs matches %s", noticed)
	}
}

func TestAMutationThatTestsDoNotSeeIsNotCaught(t *testing.T) {
	harmless := Mutation{Name: "harmless", pkg: "./internal/testing/archtest", test: "Documented",
		edits: []harness.Edit{{File: "migrations/migrations.go", Old: "package migrations",
			New: "package migrations // edited"}}}
	_, err := harmless.Try(context.Background(), 1, io.Discard)
	require.ErrorIs(t, err, errNotCaught)
}

func TestAMutationThatSomethingElseNoticesIsNotCaught(t *testing.T) {
	b := Mutation{Name: "mutation", noticed: []*regexp.Regexp{regexp.MustCompile("does not add up")}}
	_, err := b.judge("torture: round 1", "round 1 (kill): torture: connect: refused")
	require.ErrorIs(t, err, errSomethingElse)
	caught, err := b.judge("torture: round 1", "round 1 (kill): the state does not add up")
	require.NoError(t, err)
	require.Equal(t, "torture: round 1", caught)
}

func TestALineThatSaysNothingIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"breaks it":                     "line 1",
		"mutation a\n\nbrakes it":       "line 3",
		"mutation a\n- x":               "line 2",
		"mutation a\ntorture flood=1":   "flood",
		"mutation a\nbooks x":           "invalid duration",
		"mutation a\nnoticed (":         "missing closing",
		"# only\nmutation a\nin x\n* y": "line 4",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, want)
	}
}
