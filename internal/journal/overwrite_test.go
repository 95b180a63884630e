package journal

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests in this file simulate a copy-on-write file system on a full disk, which refuses to overwrite
// allocated bytes. A refused write has written the first half of its bytes.

// noOverwrites fails all writes with reason, and no other calls.
func noOverwrites(reason error) func(int, string) error {
	return func(_ int, op string) error {
		if op == "write" {
			return reason
		}
		return nil
	}
}

// TestARefusedOverwriteIsWaitedFor: while the disk refuses writes, no claim succeeds and no Wait returns; after
// a restart or a power cut all acknowledged records are there; and once there is room, all calls succeed.
func TestARefusedOverwriteIsWaitedFor(t *testing.T) {
	for _, reason := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		bubble(t, func(t *testing.T, fs *memFS) {
			j := mustOpenMem(t, fs, small)
			fill(t, j, 3, 100)
			fs.failOnly(noOverwrites(reason))
			require.NoError(t, j.ClaimReserve(400), "claimed before it is known")
			waits := make(chan error, 1)
			go func() { // claim more room than is free, so that the claim waits
				for j.ClaimReserve(400) == nil {
				}
				waits <- j.ClaimReserve(400)
			}()
			last := uint64(0)
			for range 20 { // enough for several batches and several segments
				var err error
				last, err = j.Append(payload(j.Appended()+1, 500))
				require.NoError(t, err)
			}
			patience, cancel := context.WithTimeout(background, time.Hour)
			defer cancel()
			require.ErrorIs(t, j.Wait(patience, 4), context.DeadlineExceeded)
			require.Equal(t, uint64(3), j.Synced())
			require.NoError(t, j.Err(), "the journal lives")
			require.ErrorIs(t, j.Room(), ErrNoRoom)
			require.ErrorIs(t, j.Room(), reason)
			require.ErrorIs(t, j.Claim(1), ErrNoRoom)
			require.ErrorIs(t, j.ClaimReserve(1), ErrNoRoom, "the reserve cannot be written either")
			require.ErrorIs(t, <-waits, ErrNoRoom, "no claim waits meanwhile")
			for variant := range uint64(6) {
				requireUsable(t, fs.afterPowerCut(rand.New(rand.NewPCG(1, variant))), 3, "power cut %d while it waits", variant)
			}
			requireUsable(t, fs.clone(), 3, "the end of the process while it waits")
			var syncs atomic.Int64 // number of syncs, including those of the allocator's goroutine
			fs.failOnly(func(_ int, op string) error {
				if op == "sync" {
					syncs.Add(1)
				}
				return nil
			})
			require.NoError(t, j.Wait(background, last))
			require.NoError(t, j.Room())
			require.Positive(t, syncs.Load())
			promised := j.Synced()
			requireUsable(t, fs.afterPowerCut(rand.New(rand.NewPCG(2, 0))), promised, "power cut afterwards")
			require.NoError(t, j.Close())
			require.Equal(t, last, readAll(t, fs))
		})
	}
}

// TestEachRefusedOverwriteLosesNothing refuses each write of a session in turn, twice in a row, and cuts the
// power after the session.
func TestEachRefusedOverwriteLosesNothing(t *testing.T) {
	const seed, records = 13, 40
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		whole := newMemFS()
		_, err := session(whole, seed, records)
		require.NoError(t, err)
		refused, dropped := 0, 0
		for at := 20; at <= whole.calls; at++ { // skip the calls that Open makes
			fs := newMemFS()
			fs.failOnly(func(call int, op string) error {
				if op == "write" && (call == at || call == at+1) {
					refused++
					return syscall.ENOSPC
				}
				return nil
			})
			promised, err := session(fs, seed, records)
			if err != nil { // an error of Close, which does not wait for room
				require.ErrorIsf(t, err, syscall.ENOSPC, "step %d", at)
				dropped++
			}
			fs.failOnly(nil)
			survives(t, fs, promised, 1, "after the session")
		}
		require.Greater(t, refused, records)
		require.Less(t, dropped, records/4, "the last batch, at the end of the session")
	})
}

// TestAFailedSyncAfterARefusedOverwriteIsFinal: only the write is retried, not the sync.
func TestAFailedSyncAfterARefusedOverwriteIsFinal(t *testing.T) {
	for _, reason := range []error{syscall.ENOSPC, syscall.EIO} {
		bubble(t, func(t *testing.T, fs *memFS) {
			j := mustOpenMem(t, fs, small)
			writes, syncs := 0, 0
			fs.failOnly(func(_ int, op string) error {
				switch op {
				case "write":
					if writes++; writes < 4 {
						return syscall.ENOSPC
					}
				case "sync":
					syncs++
					return reason
				}
				return nil
			})
			seq, err := j.Append(payload(1, 100))
			require.NoError(t, err)
			require.ErrorIs(t, j.Wait(background, seq), ErrFailed)
			require.ErrorIs(t, j.Err(), reason)
			require.Equal(t, []int{4, 1}, []int{writes, syncs})
			require.ErrorIs(t, j.Close(), ErrFailed)
		})
	}
}

// TestAnotherFailedWriteIsFinal: a write that fails for another reason is not retried, even if it follows
// one that was refused for lack of room.
func TestAnotherFailedWriteIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		reason := error(syscall.ENOSPC)
		fs.failOnly(func(call int, op string) error { return noOverwrites(reason)(call, op) })
		seq, err := j.Append(payload(1, 100))
		require.NoError(t, err)
		synctest.Wait()
		require.ErrorIs(t, j.Room(), syscall.ENOSPC)
		fs.mu.Lock()
		reason = syscall.EIO
		fs.mu.Unlock()
		require.ErrorIs(t, j.Wait(background, seq), syscall.EIO)
		require.ErrorIs(t, j.Err(), ErrFailed)
		require.ErrorIs(t, j.Close(), ErrFailed)
	})
}

// TestCloseDoesNotWaitForAnOverwrite: Close drops what cannot be written, and returns an error.
func TestCloseDoesNotWaitForAnOverwrite(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fill(t, j, 3, 100)
		fs.failOnly(noOverwrites(syscall.ENOSPC))
		_, err := j.Append(payload(4, 100))
		require.NoError(t, err)
		synctest.Wait()
		err = j.Close()
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "write records 4 to 4")
		fs.failOnly(nil)
		requireUsable(t, fs, 3, "when there is room again")
	})
}

// TestAnEndMarkNeedsNoRoom: if there is no room for an end mark, neither an idle journal nor Close fails.
func TestAnEndMarkNeedsNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fill(t, j, 3, 100)
		fs.failOnly(noOverwrites(syscall.ENOSPC))
		time.Sleep(2 * idleMark)
		synctest.Wait()
		require.NoError(t, j.Err())
		fs.failOnly(nil)
		fill(t, j, 4, 100)
		fs.failOnly(noOverwrites(syscall.EDQUOT))
		require.NoError(t, j.Close())
		fs.failOnly(nil)
		requireUsable(t, fs, 4, "afterwards")
	})
}
