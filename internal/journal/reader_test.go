package journal

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReaderFollowsTheJournal(t *testing.T) {
	j := mustOpen(t, t.TempDir(), small)
	const last = 2000
	r, err := j.NewReader(1)
	require.NoError(t, err)
	go func() {
		for seq := uint64(1); seq <= last; seq++ {
			j.Append(payload(seq, 60))
		}
	}()
	for seq := uint64(1); seq <= last; seq++ {
		got, b, err := r.Next(background)
		require.NoError(t, err)
		require.Equal(t, seq, got)
		require.Equal(t, payload(seq, 60), b)
		require.LessOrEqual(t, seq, j.Synced(), "only synced records are read")
	}
	_, _, ok, err := r.TryNext()
	require.NoError(t, err)
	require.False(t, ok)
	r.Close()

	r, err = j.NewReader(1234)
	require.NoError(t, err)
	defer r.Close()
	seq, b, ok, err := r.TryNext()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, uint64(1234), seq)
	require.Equal(t, payload(1234, 60), b)
}

func TestRemoveBeforeKeepsWhatIsNeeded(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 1000, 90)
	r, err := j.NewReader(400)
	require.NoError(t, err)
	require.NoError(t, j.RemoveBefore(900))
	require.LessOrEqual(t, j.First(), uint64(400), "the reader has not read it")
	require.Greater(t, j.First(), uint64(300))
	r.Close()
	require.NoError(t, j.RemoveBefore(5000))
	require.Equal(t, 1, j.SegmentCount(), "the last segment stays")
	_, err = j.NewReader(1)
	require.ErrorIs(t, err, ErrGone)
	first := j.First()
	require.NoError(t, j.Close())
	j = mustOpen(t, dir, small)
	require.Equal(t, first, j.First())
	require.Equal(t, uint64(1000), j.Appended())
}

func TestAFollowerHoldsNoMoreThanItMay(t *testing.T) {
	j := mustOpen(t, t.TempDir(), small)
	fill(t, j, 1000, 90)
	r, err := j.NewFollower(1, 300)
	require.NoError(t, err)
	defer r.Close()
	_, _, ok, err := r.TryNext()
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, j.RemoveBefore(1000))
	require.LessOrEqual(t, j.First(), uint64(701), "the newest 300 are held")
	require.Greater(t, j.First(), uint64(600))
	for ok && err == nil { // read the rest of the file that the reader has open
		_, _, ok, err = r.TryNext()
	}
	require.ErrorIs(t, err, ErrGone)

	keeping, err := j.NewFollower(j.First(), 1000)
	require.NoError(t, err)
	defer keeping.Close()
	first := j.First()
	require.NoError(t, j.RemoveBefore(1000))
	require.Equal(t, first, j.First(), "it is not further behind than it may be")
	keeping.Hold(10)
	r.Hold(10)
	require.NoError(t, j.RemoveBefore(1000))
	require.Greater(t, j.First(), uint64(950), "it may hold less now")
}

func TestNextWaitsForTheSync(t *testing.T) {
	j, gate := gated(t)
	r, err := j.NewReader(1)
	require.NoError(t, err)
	defer r.Close()
	_, err = j.Append(payload(1, 50))
	require.NoError(t, err)
	_, _, ok, err := r.TryNext()
	require.NoError(t, err)
	require.False(t, ok, "appended is not synced")
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, _, err = r.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
	close(gate)
	seq, b, err := r.Next(background)
	require.NoError(t, err)
	require.Equal(t, uint64(1), seq)
	require.Equal(t, payload(1, 50), b)
}

func TestReaderOfWhatIsYetToCome(t *testing.T) {
	j := mustOpen(t, t.TempDir(), small)
	fill(t, j, 10, 100)
	r, err := j.NewReader(100)
	require.NoError(t, err)
	defer r.Close()
	fill(t, j, 200, 100)
	for want := uint64(100); want <= 200; want++ {
		seq, b, err := r.Next(background)
		require.NoError(t, err)
		require.Equal(t, want, seq)
		require.Equal(t, payload(want, 100), b)
	}
	require.NoError(t, j.Close())
	_, _, err = r.Next(background)
	require.ErrorIs(t, err, ErrClosed)
}

// TestReaderRefusesDamage flips every byte of a record while the journal is open.
func TestReaderRefusesDamage(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	defer j.Close()
	fill(t, j, 5, 40)
	s, f := lastSegment(t, fs)
	at := records(t, s, f.data)
	for i := at[2]; i < at[3]; i++ {
		r, err := j.NewReader(3)
		require.NoError(t, err)
		f.data[i] ^= 0x80
		_, _, _, err = r.TryNext()
		var damage *DamageError
		require.ErrorAs(t, err, &damage, "byte %d", i)
		require.Equal(t, DamageError{s.path, int64(at[2]), damage.Reason}, *damage)
		f.data[i] ^= 0x80
		r.Close()
	}
}
