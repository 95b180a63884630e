package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bubble runs a test in a synctest bubble with a fake clock, so that retries take no time.
func bubble(t *testing.T, f func(t *testing.T, fs *memFS)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newMemFS()) })
}

func mustOpenMem(t *testing.T, fs *memFS, o Options) *Journal {
	t.Helper()
	j, err := open(fs, memDir, o)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	synctest.Wait() // wait until the next segment is made or refused
	return j
}

// claimed appends a record with a claim and waits for it.
func claimed(t *testing.T, j *Journal, claim func(int) error, size int) error {
	t.Helper()
	if err := claim(size); err != nil {
		return err
	}
	seq, err := j.AppendClaimed(payload(j.Appended()+1, size), size)
	require.NoError(t, err)
	require.NoError(t, j.Wait(background, seq))
	return nil
}

// TestAFullDiskIsDefined goes through all states of a full disk: the next segment cannot be made; claims fail; the
// reserve is used, and then used up; no failure occurs; a new process finds all records and is in the same state; and
// as soon as there is room, all calls succeed again.
func TestAFullDiskIsDefined(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fs.setRoom(0) // one spare segment is ready; no further one can be made
		require.NoError(t, j.Room())
		for j.Room() == nil {
			require.NoError(t, claimed(t, j, j.Claim, 100))
			synctest.Wait()
		}
		require.ErrorIs(t, j.Room(), ErrNoRoom)
		require.ErrorIs(t, j.Room(), syscall.ENOSPC, "Room returns the reason")
		require.Equal(t, 2, j.SegmentCount())
		require.ErrorIs(t, j.Claim(100), ErrNoRoom)
		require.Equal(t, int64(1024), j.ReserveBytes())
		require.GreaterOrEqual(t, j.RoomBytes(), j.ReserveBytes())

		used, room := 0, j.RoomBytes()
		err := error(nil)
		for err == nil {
			require.Less(t, used, 2*4096)
			if err = claimed(t, j, j.ClaimReserve, 40); err == nil {
				used += recordBytes(40)
			}
		}
		require.ErrorIs(t, err, ErrNoRoom)
		require.GreaterOrEqual(t, int64(used), room-2*int64(recordBytes(40)), "all of the room was used")
		require.GreaterOrEqual(t, int64(used), j.ReserveBytes())
		require.NoError(t, j.Err(), "the journal lives")

		last := j.Synced()
		again := mustOpenMem(t, fs.clone(), small)
		require.Equal(t, last, again.Synced())
		require.NoError(t, again.Close())
		full := fs.clone()
		full.setRoom(0)
		again = mustOpenMem(t, full, small)
		require.Equal(t, last, again.Synced(), "a full disk starts")
		require.ErrorIs(t, again.Claim(40), ErrNoRoom)
		require.NoError(t, again.Close())

		fs.setRoom(-1)
		time.Sleep(allocateRetry)
		synctest.Wait()
		require.NoError(t, j.Room())
		for range 200 {
			require.NoError(t, claimed(t, j, j.Claim, 100))
		}
		require.NoError(t, j.Close())
		require.Equal(t, last+200, readAll(t, fs))
	})
}

// TestADiskThatIsFullAtAnyMomentLosesNothing limits the disk to each size in turn: it is full when the next
// segment is created, while its zeros are written, or never. Then the limit is removed.
func TestADiskThatIsFullAtAnyMomentLosesNothing(t *testing.T) {
	for _, allocates := range []bool{true, false} {
		for room := 0; room < 3*4096; room += 100 {
			bubble(t, func(t *testing.T, fs *memFS) {
				if !allocates { // as on file systems without allocation: the writing of zeros finds the disk full
					fs = newMemFS()
					fs.cannotAllocate = true
				}
				j := mustOpenMem(t, fs, small)
				fs.setRoom(room)
				for range 100 {
					if err := claimed(t, j, j.Claim, 90); err != nil {
						require.ErrorIs(t, err, ErrNoRoom)
						break
					}
				}
				for range 5 {
					require.NoError(t, claimed(t, j, j.ClaimReserve, 90))
				}
				last := j.Synced()
				synctest.Wait()
				if j.Room() != nil {
					names, err := fs.list(memDir)
					require.NoError(t, err)
					require.Len(t, names, j.SegmentCount(), "what could not be finished is removed")
				}
				requireUsable(t, fs.clone(), last, "room for %d", room)
				fs.setRoom(-1)
				time.Sleep(allocateRetry)
				synctest.Wait()
				require.NoError(t, claimed(t, j, j.Claim, 90))
				require.NoError(t, j.Close())
				require.Equal(t, last+1, readAll(t, fs))
			})
		}
	}
}

// TestAFullDiskAtTheRenameIsWaitedFor: a rename may need room in the directory.
func TestAFullDiskAtTheRenameIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fs.failOnly(func(_ int, op string) error {
			if op == "rename" {
				return syscall.EDQUOT
			}
			return nil
		})
		seq := uint64(0)
		for range 20 {
			var err error
			seq, err = j.Append(payload(j.Appended()+1, 500))
			require.NoError(t, err)
		}
		patience, cancel := context.WithTimeout(background, time.Hour)
		require.ErrorIs(t, j.Wait(patience, seq), context.DeadlineExceeded)
		cancel()
		require.ErrorIs(t, j.Room(), syscall.EDQUOT)
		require.ErrorIs(t, j.Claim(1), ErrNoRoom)
		require.NoError(t, j.Err())
		require.Less(t, j.Synced(), seq)
		fs.failOnly(nil)
		require.NoError(t, j.Wait(background, seq))
		require.NoError(t, j.Room())
		require.NoError(t, j.Close())
		require.Equal(t, seq, readAll(t, fs))
	})
}

// TestAppendWithoutAClaimWaitsForRoom covers records that fit into a segment and larger ones.
func TestAppendWithoutAClaimWaitsForRoom(t *testing.T) {
	for _, size := range []int{500, 5000} {
		bubble(t, func(t *testing.T, fs *memFS) {
			j := mustOpenMem(t, fs, small)
			fs.setRoom(0)
			last := uint64(0)
			for range 20 {
				var err error
				last, err = j.Append(payload(j.Appended()+1, size))
				require.NoError(t, err)
			}
			patience, cancel := context.WithTimeout(background, time.Hour)
			defer cancel()
			require.ErrorIs(t, j.Wait(patience, last), context.DeadlineExceeded)
			require.NoError(t, j.Err())
			require.ErrorIs(t, j.Room(), syscall.ENOSPC)
			fs.setRoom(-1)
			require.NoError(t, j.Wait(background, last))
			require.NoError(t, j.Room())
			require.NoError(t, j.Close())
			require.Equal(t, last, readAll(t, fs))
		})
	}
}

// TestCloseDoesNotWaitForRoom: Close drops what cannot be written, and returns an error.
func TestCloseDoesNotWaitForRoom(t *testing.T) {
	for _, size := range []int{500, 5000} {
		bubble(t, func(t *testing.T, fs *memFS) {
			j := mustOpenMem(t, fs, small)
			fill(t, j, 3, 100)
			fs.setRoom(0)
			for range 20 {
				_, err := j.Append(payload(j.Appended()+1, size))
				require.NoError(t, err)
			}
			err := j.Close()
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorContains(t, err, "begin a segment at record")
			synced := j.Synced()
			require.Less(t, synced, j.Appended())
			fs.setRoom(-1)
			requireUsable(t, fs, synced, "when there is room again")
		})
	}
}

func TestANewJournalOnAFullDiskIsRefused(t *testing.T) {
	for _, room := range []int{0, 1000, 4095} {
		bubble(t, func(t *testing.T, fs *memFS) {
			fs.setRoom(room)
			_, err := open(fs, memDir, small)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorContains(t, err, "make the first segment in "+memDir)
			require.Empty(t, fs.files, "nothing is left behind")
			fs.setRoom(-1)
			requireUsable(t, fs, 0, "when there is room")
		})
	}
}

// TestClaimsOfManyAlwaysFit fills a journal completely from many goroutines with records of all sizes. Every
// claimed record must be written, whatever was appended between its claim and its append.
func TestClaimsOfManyAlwaysFit(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	for round := range uint64(30) {
		bubble(t, func(t *testing.T, fs *memFS) {
			j := mustOpenMem(t, fs, small)
			fs.setRoom(int(round%3) * 4096)
			var done sync.WaitGroup
			for n := range uint64(20) {
				done.Go(func() {
					r := rand.New(rand.NewPCG(seed+round, n))
					for range 50 {
						claim, size := j.Claim, 1+r.IntN(1400)
						if r.IntN(2) == 0 {
							claim, size = j.ClaimReserve, 1+r.IntN(300)
						}
						if err := claim(size); err != nil {
							if !errors.Is(err, ErrNoRoom) {
								t.Errorf("claim of %d: %v", size, err)
							}
							continue
						}
						if r.IntN(2) == 0 {
							time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
						}
						if _, err := j.AppendClaimed(payload(1, 1+r.IntN(size)), size); err != nil {
							t.Errorf("append of what was claimed: %v", err)
						}
					}
				})
			}
			done.Wait()
			patience, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			require.NoError(t, j.Wait(patience, j.Appended()), "nothing claimed waits for room")
			require.ErrorIs(t, j.Room(), ErrNoRoom)
			require.Zero(t, j.room.charged, "all claims are given back")
			require.Equal(t, j.size-j.at-recordHeader, j.room.tail)
			require.NoError(t, j.Close())
		})
	}
}

func TestAClaimWaitsForTheNextSegment(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		gate := make(chan struct{})
		slow := &slowFS{memFS: fs, gate: gate}
		j, err := open(slow, memDir, small)
		require.NoError(t, err)
		for j.RoomBytes() > j.ReserveBytes()+charge(recordBytes(500)) {
			require.NoError(t, claimed(t, j, j.Claim, 500))
		}
		waits := make(chan error, 1)
		go func() { waits <- claimed(t, j, j.Claim, 1000) }()
		synctest.Wait()
		require.Empty(t, waits, "the segment is being made: that is no refusal")
		require.NoError(t, j.Room())
		close(gate)
		require.NoError(t, <-waits)
		require.NoError(t, j.Close())
	})
}

// slowFS does not make a segment in advance until the gate is open.
type slowFS struct {
	*memFS
	gate chan struct{}
}

func (s *slowFS) open(path string, flag int) (file, error) {
	if path == memDir+"/next-0"+spareSuffix {
		<-s.gate
	}
	return s.memFS.open(path, flag)
}

// TestTheReserveIsUsedToItsEnd: while a claimed record may still turn out smaller than it was charged for, a
// claim waits and is not refused.
func TestTheReserveIsUsedToItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fs.setRoom(0)
		for j.Room() == nil || j.RoomBytes() > 3*int64(recordBytes(400)) {
			require.NoError(t, claimed(t, j, j.ClaimReserve, 100))
			synctest.Wait()
		}
		require.NoError(t, j.ClaimReserve(400))
		waits := make(chan error, 1)
		go func() { waits <- j.ClaimReserve(400) }()
		synctest.Wait()
		require.Empty(t, waits)
		_, err := j.AppendClaimed([]byte("little"), 400)
		require.NoError(t, err)
		require.NoError(t, <-waits)
		require.NoError(t, j.Close())
	})
}

func TestAClaimEndsWithTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		gate := make(chan struct{})
		j, err := open(&slowFS{memFS: fs, gate: gate}, memDir, small)
		require.NoError(t, err)
		require.NoError(t, j.Claim(1000))
		waits := make(chan error, 1)
		go func() { waits <- j.Claim(1000) }()
		synctest.Wait()
		require.Empty(t, waits)
		go j.Close()
		require.ErrorIs(t, <-waits, ErrClosed)
		require.ErrorIs(t, j.ClaimReserve(1), ErrClosed)
		close(gate)
	})
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fs.failFrom(1)
		seq, err := j.Append([]byte("lost"))
		require.NoError(t, err)
		require.ErrorIs(t, j.Wait(background, seq), ErrFailed)
		require.ErrorIs(t, j.Claim(10), ErrFailed)
		require.ErrorIs(t, j.Close(), ErrFailed)
	})
}

func TestAClaimThatNoSegmentTakesIsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		most := 0
		for size := 1; size < 4096; size++ {
			err := j.ClaimReserve(size)
			if err != nil {
				require.ErrorIs(t, err, ErrTooLarge)
				require.ErrorContains(t, err, fmt.Sprintf("%d bytes, the limit beside the reserve of a segment is %d", size, most))
				require.Equal(t, most, j.ClaimBytesMax())
				require.ErrorIs(t, j.Claim(size), ErrTooLarge)
				break
			}
			most = size
			_, err = j.AppendClaimed(payload(j.Appended()+1, 1), size)
			require.NoError(t, err)
		}
		require.Greater(t, most, 4096/4)
		fill(t, j, j.Appended()+7, 500)
		require.NoError(t, claimed(t, j, j.Claim, most), "the largest one always finds a segment")
		require.NoError(t, j.Close())
	})
}
