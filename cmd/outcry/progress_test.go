package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/verify"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

// said records the progress messages of a command.
type said struct {
	mu  sync.Mutex
	all []string
}

func (s *said) Say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, text)
}

func (s *said) Write(p []byte) (int, error) { return len(p), nil }

// has requires that the texts were shown, in this order.
func (s *said) has(t *testing.T, texts ...string) {
	t.Helper()
	rest := s.all
	for _, text := range texts {
		i := slices.IndexFunc(rest, func(said string) bool { return strings.HasPrefix(said, text) })
		require.GreaterOrEqual(t, i, 0, "%s: %q", text, s.all)
		rest = rest[i+1:]
	}
}

// TestLongWorkSaysWhatItDoes takes a backup, restores it, verifies the result, and checks the progress
// messages.
func TestLongWorkSaysWhatItDoes(t *testing.T) {
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := exchangetest.Start(t, data, database)
	t.Setenv("OUTCRY_ADDR", p.Addr)
	_, stderr, status := outcry("", "account", "1", "5")
	require.Equal(t, cli.ExitOK, status, stderr)

	file := filepath.Join(t.TempDir(), "file")
	var taking, restoring, verifying said
	_, err := backup.TakeFile(t.Context(), file,
		backup.TakeOptions{Data: data, DatabaseURL: database, Progress: taking.Say})
	require.NoError(t, err)
	taking.has(t, "reading the state", "copying table accounts")

	other, empty := filepath.Join(t.TempDir(), "data"), pgtest.NewDatabase(t)
	_, err = backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: other, DatabaseURL: empty,
		SegmentBytes: 1 << 16, Progress: func(say string) {
			if restoring.Say(say); say == "comparing the state" {
				requireAnalyzed(t, empty)
			}
		}})
	require.NoError(t, err)
	restoring.has(t, "reading the whole backup", "filling table accounts", "comparing the state", "committing")

	var out strings.Builder
	require.NoError(t, verify.Run(t.Context(), verify.Options{Dir: other, DatabaseURL: empty, Out: &out,
		Progress: &verifying}))
	verifying.has(t, "reading the journal", "", "executing the history again", "comparing the tables", "")
}

// requireAnalyzed requires that an open transaction has analyzed tables, which its locks show.
func requireAnalyzed(t *testing.T, database string) {
	t.Helper()
	conn := allTables(t, database)
	defer conn.Close(background)
	var tables int
	require.NoError(t, conn.QueryRow(background, `SELECT count(*) FROM pg_locks WHERE mode = 'ShareUpdateExclusiveLock'
		AND relation > 16384 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&tables))
	require.NotZero(t, tables)
}

func TestAnInterruptIsNamed(t *testing.T) {
	var stderr strings.Builder
	err := fmt.Errorf("postgres: read: %w", context.Canceled)
	require.Equal(t, cli.ExitError, newOutcry().Conclude(nil, err, &stderr))
	require.Equal(t, cli.ExitUsage, newOutcry().Conclude(nil, cli.Unchecked(err), &stderr))
	require.Equal(t, "outcry: interrupted\noutcry: cannot be checked: interrupted\n", stderr.String())
}
