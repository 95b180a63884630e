package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/backup"
	"outcry/internal/postgres"
	"outcry/internal/testing/pgtest"
)

// forged writes a copy of a backup with changes to its header, to each table with its rows, and, unless more is "",
// with an additional file. All checksums are correct.
func forged(t *testing.T, file string, header func(*backup.Header),
	table func(table *backup.Table, rows *string, count *int64), more string) (changed string) {
	t.Helper()
	source, err := os.Open(file)
	require.NoError(t, err)
	defer source.Close()
	changed = filepath.Join(t.TempDir(), "forged")
	target, err := os.Create(changed)
	require.NoError(t, err)
	defer target.Close()
	r, err := backup.NewReader(source)
	require.NoError(t, err)
	h := r.Header()
	header(&h)
	w, err := backup.NewWriter(target, h)
	require.NoError(t, err)
	for {
		s, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		rows, count := string(b), r.Rows()
		table(s.Table, &rows, &count)
		if s.Table.Name == "" {
			continue
		}
		require.NoError(t, w.BeginTable(*s.Table))
		_, err = io.WriteString(w, rows)
		require.NoError(t, err)
		require.NoError(t, w.EndTable(count))
	}
	if more != "" {
		require.NoError(t, w.AddFile(backup.File{Name: more}))
	}
	_, err = w.Close(time.Now())
	require.NoError(t, err)
	return changed
}

// TestABackupThatLiesIsRefused restores files with right checksums and wrong contents. Each restore leaves the
// database empty, and the same directory accepts the right file afterwards.
func TestABackupThatLiesIsRefused(t *testing.T) {
	t.Parallel()
	l := live(t)
	file, database, data := takenOf(t, l), pgtest.NewDatabase(t), filepath.Join(t.TempDir(), "data")
	same := func(*backup.Header) {}
	keep := func(*backup.Table, *string, *int64) {}
	of := func(name string, change func(*backup.Table, *string, *int64)) func(*backup.Table, *string, *int64) {
		return func(table *backup.Table, rows *string, count *int64) {
			if table.Name == name {
				change(table, rows, count)
			}
		}
	}
	for _, lie := range []struct {
		want   string
		header func(*backup.Header)
		table  func(*backup.Table, *string, *int64)
		more   string
	}{
		{"the restored state has the digest", func(h *backup.Header) { h.Digest[0] ^= 1 }, keep, ""},
		{"the restored tables are of record", func(h *backup.Header) { h.Seq++ }, keep, ""},
		{"the restored state does not add up", same, of("positions", func(_ *backup.Table, rows *string, n *int64) {
			*rows, *n = (*rows)[strings.Index(*rows, "\n")+1:], *n-1
		}), ""},
		{"the restored refs do not add up: refs, account", same, of("refs", func(_ *backup.Table, rows *string, _ *int64) {
			first, rest, _ := strings.Cut(*rows, "\n")
			fields := strings.Split(first, "\t")
			fields[2] += "9" // column of the record's seq
			*rows = strings.Join(fields, "\t") + "\n" + rest
		}), ""},
		{"table order_log got", same, of("order_log", func(_ *backup.Table, _ *string, n *int64) { *n++ }), ""},
		{"table cancel_log is missing", same,
			of("cancel_log", func(table *backup.Table, _ *string, _ *int64) { table.Name = "" }), ""},
		{"postgres: fill accounts", same,
			of("accounts", func(_ *backup.Table, rows *string, _ *int64) { *rows += "nonsense\n" }), ""},
		{`postgres: fill pg_class; DROP`, same,
			of("market", func(table *backup.Table, _ *string, _ *int64) { table.Name = "pg_class; DROP TABLE accounts" }), ""},
		{"is of version 99 of the schema, this program knows up to", func(h *backup.Header) { h.Schema = 99 }, keep, ""},
		{`holds a file "../evil", which this program does not know`, same, keep, "../evil"},
	} {
		wrong := forged(t, file, lie.header, lie.table, lie.more)
		refused(t, lie.want, "restore", "--segment=65536", "--data="+data, "--database-url="+database, wrong)
		loader, err := postgres.OpenLoader(background, database)
		require.NoError(t, err)
		require.NoError(t, loader.CheckEmpty(background), lie.want)
		loader.Close()
	}
	require.ErrorContains(t, backup.Unfinished(data), "has not ended")
	must(t, "restore", "--segment=65536", "--data="+data, "--database-url="+database, file)
	_, digest := stateOf(t, must(t, "verify", "--database-url="+database, data))
	require.Equal(t, l.last.Digest, digest)

	// The digest of a state listing in another format cannot be compared; restore warns of that.
	other := forged(t, file, func(h *backup.Header) { h.Listing, h.Digest = "outcry state 0", [32]byte{} }, keep, "")
	stdout := must(t, "restore", "--segment=65536", "--data="+filepath.Join(t.TempDir(), "data"),
		"--database-url="+pgtest.NewDatabase(t), other)
	require.Contains(t, stdout, "WARNING  the digest in the backup is of an older listing (outcry state 0)")
}
