package journal

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// inspected runs Inspect on the journal in dir and counts the records.
func inspected(t *testing.T, dir string) (s Summary, records uint64) {
	t.Helper()
	s, err := Inspect(dir, newest, func(uint64, []byte) error { records++; return nil })
	require.NoError(t, err)
	return s, records
}

func TestInspectTellsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	s, _ := inspected(t, dir)
	require.Zero(t, s)

	j := mustOpen(t, dir, Options{Version: newest, FirstSeq: 10, SegmentBytes: small.SegmentBytes})
	id := j.ID()
	require.NoError(t, j.Close())
	s, records := inspected(t, dir)
	require.Equal(t, Summary{ID: id, Segments: 1, First: 10, Last: 9}, s)
	require.Zero(t, records)

	j = mustOpen(t, dir, small)
	fill(t, j, 100, 100)
	require.NoError(t, j.RemoveBefore(50))
	segments, first := j.SegmentCount(), j.First()
	require.Greater(t, segments, 1)
	require.NoError(t, j.Close())
	s, records = inspected(t, dir)
	require.Equal(t, Summary{ID: id, Segments: segments, First: first, Last: 100}, s)
	require.Equal(t, 100-first+1, records)
}

// TestInspectTellsOfATornTail leaves bytes after the last record, with and without an end mark, and
// compares the summary of Inspect with what Open cuts.
func TestInspectTellsOfATornTail(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 7, 50)
	require.NoError(t, j.Close())
	path := segmentPath(dir, 1)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	marked := segmentHeader + 7*padded(recordHeader+50) + recordHeader
	for name, end := range map[string]int{"closed": marked, "not closed": marked - recordHeader} {
		t.Run(name, func(t *testing.T) {
			b := append([]byte(nil), whole...)
			clear(b[end:])
			copy(b[end+5:], "torn")
			require.NoError(t, os.WriteFile(path, b, 0o600))
			s, records := inspected(t, dir)
			require.Equal(t, uint64(7), records)
			require.Equal(t, int64(9), s.Torn)
			require.Equal(t, int64(end), s.TornOffset)
			require.Equal(t, path, s.TornFile)
			require.NoError(t, mustOpen(t, dir, Options{Version: newest}).Close())
			after, records := inspected(t, dir)
			require.Equal(t, uint64(7), records)
			require.Zero(t, after.Torn, "Open has cut it")
		})
	}
}

func TestInspectRefusesWhatOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 7, 50)
	require.NoError(t, j.Close())
	enough := errors.New("enough")
	_, err := Inspect(dir, newest, func(uint64, []byte) error { return enough })
	require.ErrorIs(t, err, enough)
	b, err := os.ReadFile(segmentPath(dir, 1))
	require.NoError(t, err)
	b[segmentHeader+30] ^= 1
	require.NoError(t, os.WriteFile(segmentPath(dir, 1), b, 0o600))
	_, err = Inspect(dir, newest, func(uint64, []byte) error { return nil })
	var damage *DamageError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, int64(segmentHeader), damage.Offset)
}
