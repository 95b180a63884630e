package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

const memDir = "/journal"

// session appends records of random sizes over several segments, waits for some of them and deletes old
// ones, until a call fails. It returns the last seq for which Wait returned nil. It must run in a
// synctest bubble: if it waits for disk room forever, it closes the journal.
func session(fs *memFS, seed uint64, records int) (promised uint64, err error) {
	return sessionOf(small, fs, seed, records)
}

// sessionOf is session with options for the journal.
func sessionOf(o Options, fs *memFS, seed uint64, records int) (promised uint64, err error) {
	j, err := open(fs, memDir, o)
	if err != nil {
		return 0, err
	}
	patience, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 1))
	promised = j.Synced()
	for range records {
		seq, err := j.Append(payload(j.Appended()+1, 20+r.IntN(900)))
		if err == nil && r.IntN(3) > 0 {
			if err = j.Wait(patience, seq); err == nil {
				promised = seq
			}
		}
		if r.IntN(8) == 0 {
			time.Sleep(idleMark) // an end mark is written here and overwritten later
			synctest.Wait()
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
	_, err := scan(fs, memDir, newest, func(r record) error {
		last = r.seq
		require.Truef(t, bytes.Equal(payload(r.seq, len(r.payload)), r.payload), "record %d holds %.40q", r.seq, r.payload)
		return nil
	})
	require.NoError(t, err)
	return last
}

// requireUsable opens a journal, requires that it holds all records up to promised, and appends one. If there are
// several segments, it also requires that the loss of the last one is detected.
func requireUsable(t *testing.T, fs *memFS, promised uint64, what string, args ...any) {
	t.Helper()
	j, err := open(fs, memDir, small)
	require.NoErrorf(t, err, what, args...)
	require.GreaterOrEqualf(t, j.Synced(), promised, what, args...)
	seq, err := j.Append(payload(j.Appended()+1, 100))
	require.NoError(t, err)
	require.NoError(t, j.Wait(background, seq))
	require.NoError(t, j.Close())
	require.Equal(t, seq, readAll(t, fs))
	if all, err := segments(fs, memDir); err != nil || len(all) > 1 {
		require.NoError(t, err)
		less := fs.clone()
		delete(less.files, all[len(all)-1].path)
		refused(t, less, "the last segment is missing")
	}
}

// TestCrashAtEveryStepKeepsWhatWasPromised interrupts a session at every write, sync, allocation, create,
// rename, remove and directory sync, several times each, in three ways: by a power cut, after which
// unsynced data is kept, dropped or torn sector by sector; by a second power cut during the recovery from
// the first; and by the end of the process only, so that a new process opens the journal as the kernel
// shows it, followed by a power cut.
func TestCrashAtEveryStepKeepsWhatWasPromised(t *testing.T) {
	const seed, records = 11, 60
	variants := uint64(budget.UnlessRaced(6))
	t.Logf("seed %d", seed)
	gathering := small
	gathering.Gather, gathering.MarkSyncs = time.Millisecond, true
	for _, o := range []Options{small, gathering} {
		synctest.Test(t, func(t *testing.T) {
			whole := newMemFS()
			_, err := sessionOf(o, whole, seed, records)
			require.NoError(t, err)
			require.Greater(t, whole.calls, 100)
			for at := 1; at <= whole.calls; at++ {
				fs := newMemFS()
				fs.failAt = at
				promised, err := sessionOf(o, fs, seed, records)
				require.Truef(t, err == nil || errors.Is(err, errPower), "step %d: %v", at, err)
				survives(t, fs, promised, variants, fmt.Sprintf("step %d", at))
			}
		})
	}
}

// survives checks that a journal recovers after a session that ended in a power cut or with its process.
func survives(t *testing.T, fs *memFS, promised, variants uint64, where string) {
	t.Helper()
	for variant := range variants {
		r := rand.New(rand.NewPCG(promised, variant))
		requireUsable(t, fs.afterPowerCut(r), promised, "%s variant %d: power cut", where, variant)

		twice := fs.afterPowerCut(r)
		twice.failFrom(1 + r.IntN(5))
		if j, err := open(twice, memDir, small); err == nil {
			_ = j.Close() // the power cut may happen here
		}
		requireUsable(t, twice.afterPowerCut(r), promised, "%s variant %d: power cut during recovery", where, variant)
	}
	fs.failFrom(0)
	j, err := open(fs, memDir, small)
	require.NoErrorf(t, err, "%s: a new process", where)
	require.GreaterOrEqualf(t, j.Synced(), promised, "%s: a new process", where)
	for variant := range variants {
		r := rand.New(rand.NewPCG(promised, variant))
		requireUsable(t, fs.afterPowerCut(r), j.Synced(), "%s variant %d: new process, power cut", where, variant)
		fill(t, j, j.Synced()+1, 300)
	}
	require.NoError(t, j.Close())
}

// TestOneFailedCallLosesNothing lets each write, sync, allocation, create, rename, remove and directory
// sync of a session fail in turn, while all other calls succeed: with a disk error and with a full disk. The
// session then either ends or does not notice the failure. A failed write is a short write.
func TestOneFailedCallLosesNothing(t *testing.T) {
	const seed, records, variants, passesMax = 12, 40, 1, 5
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		whole := newMemFS()
		_, err := session(whole, seed, records)
		require.NoError(t, err)
		failed := map[string]int{}
		fail := func(at int, fault error) {
			fs := newMemFS()
			op := ""
			fs.failOnly(func(call int, what string) error {
				if call != at {
					return nil
				}
				op = what
				return fault
			})
			promised, err := session(fs, seed, records)
			require.Truef(t, err == nil || errors.Is(err, fault), "%s at step %d: %v", op, at, err)
			if op == "allocate" && at > 10 {
				require.NoErrorf(t, err, "step %d: the next segment is tried again", at)
			}
			fs.failOnly(nil)
			survives(t, fs, promised, variants, fmt.Sprintf("%s at step %d: %v", op, at, fault))
			failed[op]++
		}
		rare := func() bool {
			return slices.ContainsFunc([]string{"create", "allocate", "write", "sync", "rename", "remove", "syncDir"},
				func(op string) bool { return failed[op] <= 2 })
		}
		for pass := 0; pass < passesMax && (pass == 0 || rare()); pass++ { // the order of calls varies between passes
			for at := 1; at <= whole.calls; at++ {
				fail(at, syscall.EIO)
				fail(at, syscall.ENOSPC)
			}
		}
		require.False(t, rare(), failed)
	})
}

func TestFailureIsFinalAndTold(t *testing.T) {
	for what, call := range map[string]int{"write": 1, "sync": 2} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := newMemFS()
				j, err := open(fs, memDir, small)
				require.NoError(t, err)
				fill(t, j, 3, 50)
				synctest.Wait() // wait until the next segment is ready
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

// TestFailedRemoveLeavesNoGap: if a segment could not be deleted, the next call deletes it first. Otherwise Open
// would find a gap.
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
		requireUsable(t, fs.clone(), 60, "with the rest of them")
		require.NoError(t, j.RemoveBefore(30))
		require.Less(t, j.SegmentCount(), count-1)
		require.NoError(t, j.Close())
		requireUsable(t, fs, 60, "without them")
	})
}

// TestADeletionThatIsNotDurableIsNotFollowedByAnother: RemoveBefore deletes nothing more while a deletion is not
// durable. If only the later deletion reached the disk, Open would find a gap.
func TestADeletionThatIsNotDurableIsNotFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		j, err := open(fs, memDir, small)
		require.NoError(t, err)
		fill(t, j, 60, 500)
		synctest.Wait()
		count := j.SegmentCount()
		fs.fault = func(_ int, op string) error {
			if op == "syncDir" {
				return errPower
			}
			return nil
		}
		for range 3 {
			require.ErrorIs(t, j.RemoveBefore(30), errPower)
			require.Equal(t, count-1, j.SegmentCount())
		}
		fs.fault = nil
		require.NoError(t, j.RemoveBefore(30))
		require.Less(t, j.SegmentCount(), count-1)
		require.NoError(t, j.Close())
		requireUsable(t, fs, 60, "without them")
	})
}
