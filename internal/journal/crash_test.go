package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const memDir = "/journal"

// session appends records of random sizes over several segments, waits for some
// and deletes old ones, until something fails. It returns the last seq that Wait
// promised.
func session(fs *memFS, seed uint64, records int) (promised uint64, err error) {
	j, err := open(fs, memDir, small)
	if err != nil {
		return 0, err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	promised = j.Synced()
	for range records {
		seq, err := j.Append(payload(j.Appended()+1, 20+r.IntN(900)))
		if err == nil && r.IntN(3) > 0 {
			if err = j.Wait(background, seq); err == nil {
				promised = seq
			}
		}
		if err == nil && r.IntN(10) == 0 {
			err = j.RemoveBefore(promised / 2)
		}
		if err != nil {
			return promised, errors.Join(err, j.Close())
		}
	}
	if err := j.Close(); err != nil {
		return promised, err
	}
	return j.Appended(), nil
}

// readAll checks every record of a journal and returns the last seq.
func readAll(t *testing.T, fs *memFS) uint64 {
	t.Helper()
	last := uint64(0)
	_, err := scan(fs, memDir, func(r record) error {
		last = r.seq
		require.Truef(t, bytes.Equal(payload(r.seq, len(r.payload)), r.payload), "record %d holds %.40q", r.seq, r.payload)
		return nil
	})
	require.NoError(t, err)
	return last
}

// goesOn opens a journal, demands everything up to seq promised, and appends.
func goesOn(t *testing.T, fs *memFS, promised uint64, what string, args ...any) {
	t.Helper()
	j, err := open(fs, memDir, small)
	require.NoErrorf(t, err, what, args...)
	require.GreaterOrEqualf(t, j.Synced(), promised, what, args...)
	seq, err := j.Append(payload(j.Appended()+1, 100))
	require.NoError(t, err)
	require.NoError(t, j.Wait(background, seq))
	require.NoError(t, j.Close())
	require.Equal(t, seq, readAll(t, fs))
}

// TestCrashAtEveryStepKeepsWhatWasPromised ends a session at every write, sync,
// create, rename, remove and directory sync, several times each: with a power cut,
// what was not synced being kept, dropped and torn sector by sector; with another
// power cut while that is recovered; and with the end of the process alone, a new
// one that reads what the kernel shows and promises it, and a power cut then.
func TestCrashAtEveryStepKeepsWhatWasPromised(t *testing.T) {
	const seed, records, variants = 11, 60, 6
	t.Logf("seed %d", seed)
	whole := newMemFS()
	_, err := session(whole, seed, records)
	require.NoError(t, err)
	require.Greater(t, whole.calls, 100)
	for at := 1; at <= whole.calls; at++ {
		fs := newMemFS()
		fs.failAt = at
		promised, err := session(fs, seed, records)
		require.Truef(t, err == nil || errors.Is(err, errPower), "step %d: %v", at, err)
		for variant := range uint64(variants) {
			r := rand.New(rand.NewPCG(uint64(at), variant))
			goesOn(t, fs.afterPowerCut(r), promised, "step %d variant %d: power cut", at, variant)

			twice := fs.afterPowerCut(r)
			twice.failFrom(1 + r.IntN(5))
			if j, err := open(twice, memDir, small); err == nil {
				_ = j.Close() // the power may have gone out here
			}
			goesOn(t, twice.afterPowerCut(r), promised, "step %d variant %d: power cut during recovery", at, variant)
		}
		fs.failFrom(0)
		j, err := open(fs, memDir, small)
		require.NoErrorf(t, err, "step %d: a new process", at)
		require.GreaterOrEqualf(t, j.Synced(), promised, "step %d: a new process", at)
		for variant := range uint64(variants) {
			r := rand.New(rand.NewPCG(uint64(at), variant))
			goesOn(t, fs.afterPowerCut(r), j.Synced(), "step %d variant %d: new process, power cut", at, variant)
			fill(t, j, j.Synced()+1, 300)
		}
		require.NoError(t, j.Close())
	}
}

func TestFailureIsFinalAndTold(t *testing.T) {
	for what, call := range map[string]int{"write": 1, "sync": 2} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := newMemFS()
				j, err := open(fs, memDir, small)
				require.NoError(t, err)
				fill(t, j, 3, 50)
				synctest.Wait() // the next segment is made
				fs.failFrom(call)
				seq, err := j.Append([]byte("lost"))
				require.NoError(t, err)
				require.ErrorIs(t, j.Wait(background, seq), errPower)
				<-j.Failed()
				require.ErrorIs(t, j.Err(), errPower)
				require.ErrorIs(t, j.Err(), ErrFailed)
				require.ErrorContains(t, j.Err(), what+" records 4 to 4")
				fs.failFrom(0)
				calls := fs.calls
				_, err = j.Append([]byte("too late"))
				require.ErrorIs(t, err, ErrFailed)
				require.ErrorIs(t, j.Wait(background, seq), ErrFailed)
				require.NoError(t, j.Wait(background, 3), "what was synced stays so")
				synctest.Wait()
				require.Equal(t, calls, fs.calls, "there is no retry")
				require.ErrorIs(t, j.Close(), ErrFailed)
			})
		})
	}
}

// TestNoRoomIsToldAndMended lets the allocator's clock run in a bubble.
func TestNoRoomIsToldAndMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		j, err := open(fs, memDir, small)
		require.NoError(t, err)
		synctest.Wait()
		fs.setFull(true) // the next segment is ready already: the one after it is missing
		for j.SegmentCount() == 1 {
			require.NoError(t, j.Room())
			fill(t, j, j.Appended()+1, 500)
		}
		synctest.Wait()
		require.ErrorContains(t, j.Room(), "no space left")
		fill(t, j, j.Appended()+1, 20) // the present segment still takes records
		time.Sleep(10 * allocateRetry)
		require.ErrorContains(t, j.Room(), "no space left")
		fs.setFull(false)
		time.Sleep(allocateRetry)
		synctest.Wait()
		require.NoError(t, j.Room())
		fill(t, j, j.Appended()+50, 500)
		require.NoError(t, j.Close())
	})
}

func TestAppendingOnWithoutRoomFails(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	fs.setFull(true)
	for err == nil {
		var seq uint64
		if seq, err = j.Append(payload(j.Appended()+1, 500)); err == nil {
			err = j.Wait(background, seq)
		}
	}
	require.ErrorIs(t, err, ErrFailed)
	require.ErrorContains(t, err, "no space left")
	synced := j.Synced()
	require.ErrorIs(t, j.Close(), ErrFailed)
	fs.setFull(false)
	goesOn(t, fs, synced, "when there is room again")
}

// TestFailedRemoveLeavesNoGap: what could not be deleted is deleted first the
// next time, or else a new start would find a hole.
func TestFailedRemoveLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		j, err := open(fs, memDir, small)
		require.NoError(t, err)
		fill(t, j, 60, 500)
		synctest.Wait()
		count := j.SegmentCount()
		require.Greater(t, count, 5)
		fs.failFrom(3) // the second remove
		require.ErrorIs(t, j.RemoveBefore(30), errPower)
		require.Equal(t, count-1, j.SegmentCount())
		require.Greater(t, j.First(), uint64(1))
		fs.failFrom(0)
		goesOn(t, fs.clone(), 60, "with the rest of them")
		require.NoError(t, j.RemoveBefore(30))
		require.Less(t, j.SegmentCount(), count-1)
		require.NoError(t, j.Close())
		goesOn(t, fs, 60, "without them")
	})
}
