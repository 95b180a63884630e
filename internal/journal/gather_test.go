package journal

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const gatherTime = 10 * time.Millisecond

// gathering opens a journal with Options.Gather. The returned function describes each batch: the number of
// its records and the time when it was synced.
func gathering(t *testing.T, fs *memFS, pendingBytesMax int) (*Journal, func() []string) {
	t.Helper()
	start := time.Now()
	batches := make(chan string, 100)
	j, err := open(fs, memDir, Options{Version: newest, SegmentBytes: 1 << 20, PendingBytesMax: pendingBytesMax,
		Gather: gatherTime, OnSync: func(records, _ int, _ time.Duration) {
			batches <- fmt.Sprint(records, " after ", time.Since(start))
		}})
	require.NoError(t, err)
	return j, func() (all []string) {
		synctest.Wait()
		for len(batches) > 0 {
			all = append(all, <-batches)
		}
		return all
	}
}

// TestRecordsThatGatherShareOneSync: records are gathered for the configured time after the first one.
func TestRecordsThatGatherShareOneSync(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j, batches := gathering(t, fs, 0)
		time.Sleep(5 * time.Millisecond)
		for seq := uint64(1); seq <= 5; seq++ {
			_, err := j.Append(payload(seq, 50))
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.Zero(t, j.Synced())
		require.NoError(t, j.Wait(background, 5))
		require.Equal(t, []string{"5 after 15ms"}, batches())
		fill(t, j, 6, 50)
		require.Equal(t, []string{"1 after 25ms"}, batches())
		require.NoError(t, j.Close())
	})
}

// TestGatheringEndsWhenAnAppendWaits: if an Append waits for memory, the batch is written at once.
func TestGatheringEndsWhenAnAppendWaits(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j, batches := gathering(t, fs, 1000)
		for seq := uint64(1); seq <= 4; seq++ {
			_, err := j.Append(payload(seq, 400))
			require.NoError(t, err)
		}
		require.Equal(t, []string{"2 after 0s"}, batches())
		require.NoError(t, j.Wait(background, 4))
		require.Equal(t, []string{"2 after 10ms"}, batches())
		require.NoError(t, j.Close())
	})
}

// TestCloseDoesNotGather: Close writes the pending records at once.
func TestCloseDoesNotGather(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j, batches := gathering(t, fs, 0)
		_, err := j.Append(payload(1, 50))
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, j.Close())
		require.Equal(t, []string{"1 after 0s"}, batches())
		require.Equal(t, uint64(1), readAll(t, fs))
	})
}

// TestMarkedSyncsAreNotTakenForTornWrites kills the process right after it has reported a batch as synced,
// and damages that batch. It does the same after Open has recovered a batch.
func TestMarkedSyncsAreNotTakenForTornWrites(t *testing.T) {
	marked := Options{Version: newest, SegmentBytes: specimenBytes, MarkSyncs: true} // segments fit both marks
	synctest.Test(t, func(t *testing.T) {
		live := newMemFS()
		j, err := open(live, memDir, marked)
		require.NoError(t, err)
		damageLast := func(fs *memFS, what string) {
			s, f := lastSegment(t, fs)
			at := records(t, s, f.data)
			for i := at[len(at)-2]; i < at[len(at)-1]; i++ {
				one := fs.clone()
				one.files[s.path].data[i] ^= 0x10
				refused(t, one, "%s: byte %d", what, i)
			}
			page := fs.clone()
			begin := at[len(at)-2] / sectorBytes * sectorBytes
			clear(page.files[s.path].data[begin : begin+sectorBytes])
			refused(t, page, "%s: the sector at %d zeroed", what, begin)
		}
		for seq := uint64(1); seq <= 10; seq++ {
			fill(t, j, seq, 300)
			damageLast(live.clone(), fmt.Sprint("synced record ", seq))
		}
		killed := live.clone()
		require.NoError(t, j.Close())

		s, f := lastSegment(t, killed)
		at := records(t, s, f.data)
		clear(f.data[at[len(at)-1]:]) // as if the process was killed before it wrote the mark
		j, err = open(killed, memDir, marked)
		require.NoError(t, err)
		damageLast(killed.clone(), "found at a start")
		require.NoError(t, j.Close())
	})
}
