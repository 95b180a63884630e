package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

func TestAPassOverRecordsShowsItsProgress(t *testing.T) {
	var said []string
	v := &verifier{say: func(text string) { said = append(said, text) }}
	v.sayRecord("x", 1, 0)
	v.sayRecord("x", saidEvery, 0)
	v.sayRecord("x", 2*saidEvery, 9999)
	require.Equal(t, []string{"x: record 4096", "x: record 8192 of 9999"}, said)
}

// TestLiveReadsAgainWhatIsDeleted: if a segment is deleted during a read, the read starts over at the
// first record that is left.
func TestLiveReadsAgainWhatIsDeleted(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(dir, journal.Options{Version: exchange.EventVersion, SegmentBytes: 4096})
	require.NoError(t, err)
	for range 100 {
		_, err := j.Append(make([]byte, 200))
		require.NoError(t, err)
	}
	require.NoError(t, j.Wait(t.Context(), 100))
	defer j.Close()
	v := &verifier{dir: dir, live: true, say: func(string) {}}
	var firsts []uint64
	before := uint64(0)
	s, err := v.readJournal(func(seq uint64, _ []byte) error {
		if seq != before+1 {
			firsts = append(firsts, seq)
		}
		if before = seq; seq == 1 {
			firsts = append(firsts, seq)
			require.NoError(t, j.RemoveBefore(70))
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []uint64{1, s.First}, firsts)
	require.Equal(t, j.First(), s.First)
	require.Greater(t, s.First, uint64(30))
	require.Equal(t, uint64(100), s.Last)
	require.Equal(t, j.ID(), s.ID)
}
