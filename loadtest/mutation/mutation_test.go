package mutation

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/loadtest/harness"
	"outcry/loadtest/torture"
)

// An edit whose place has moved would only show in the long run of the bugs.
func TestEveryBugFitsTheSource(t *testing.T) {
	root, err := harness.Root(context.Background())
	require.NoError(t, err)
	names := map[string]bool{}
	for _, b := range Bugs() {
		t.Run(b.Name, func(t *testing.T) {
			require.NotEmpty(t, b.Promise)
			require.NotEmpty(t, b.noticed)
			require.False(t, names[b.Name])
			names[b.Name] = true
			_, err := harness.Overlay(root, t.TempDir(), b.edits)
			require.NoError(t, err)
			require.NotEqual(t, b.plan == nil, b.pkg == "", "either a plan or a package")
			for fault := range b.plan {
				require.Contains(t, torture.Faults(), fault)
			}
			found, ok := Find(b.Name)
			require.True(t, ok)
			require.Equal(t, b.Promise, found.Promise)
		})
	}
	_, ok := Find("none")
	require.False(t, ok)
}

func TestABugThatTestsDoNotSeeIsNotCaught(t *testing.T) {
	harmless := Bug{Name: "harmless", pkg: "./internal/testing/archtest", test: "Documented", noticed: ".",
		edits: []harness.Edit{{File: "migrations/migrations.go", Old: "package migrations", New: "package migrations // edited"}}}
	_, err := harmless.Try(context.Background(), 1, t.TempDir(), io.Discard)
	require.ErrorIs(t, err, errNotCaught)
}

func TestABugThatSomethingElseNoticesIsNotCaught(t *testing.T) {
	b := Bug{Name: "bug", noticed: "does not add up"}
	_, err := b.judge("torture: round 1", "round 1 (kill): torture: connect: refused")
	require.ErrorIs(t, err, errSomethingElse)
	caught, err := b.judge("torture: round 1", "round 1 (kill): the state does not add up")
	require.NoError(t, err)
	require.Equal(t, "torture: round 1", caught)
}
