package journal

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// claimMany calls ClaimMany and retries it until the room is claimed or an error is returned.
func claimMany(t *testing.T, j *Journal, records, size int) error {
	t.Helper()
	for {
		wait, err := j.ClaimMany(records, size)
		if wait == nil {
			return err
		}
		<-wait
	}
}

// TestAClaimOfManyRecordsHasRoomForAll claims room worth several segments, lets the disk fill up, and
// appends all claimed records, with other records in between.
func TestAClaimOfManyRecordsHasRoomForAll(t *testing.T) {
	const records, size = 40, 900
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		wait, err := j.ClaimMany(records, size)
		require.NoError(t, err)
		require.NotNil(t, wait, "the segments are not there yet")
		require.NoError(t, claimMany(t, j, records, size))
		synctest.Wait()
		require.NoError(t, claimed(t, j, j.Claim, 100), "others need not wait for it")
		fs.setRoom(0)
		var last uint64
		for n := range records {
			if n%3 == 0 {
				require.NoError(t, claimed(t, j, j.ClaimReserve, 40))
			}
			if last, err = j.AppendMany(payload(j.Appended()+1, size), size); n%2 == 0 {
				require.NoError(t, j.Wait(background, last))
			}
			require.NoError(t, err)
		}
		require.NoError(t, j.Wait(background, last), "it has its place on the full disk")
		require.Greater(t, j.SegmentCount(), 8)
		require.Zero(t, j.room.many)
		require.Zero(t, j.room.charged)

		again := mustOpenMem(t, fs.clone(), small)
		require.Equal(t, j.Synced(), again.Synced())
	})
}

// TestADiskWithoutRoomForAClaimRefusesItAlone: a ClaimMany for which the disk has too little room, or no
// room at all, is refused. Other claims still succeed, and the segments made for the refused claim are
// removed.
func TestADiskWithoutRoomForAClaimRefusesItAlone(t *testing.T) {
	for _, segments := range []int{3, 0} {
		bubble(t, func(t *testing.T, fs *memFS) {
			j := mustOpenMem(t, fs, small)
			fs.setRoom(segments * 4096)
			before := fs.used()
			for range 3 {
				err := claimMany(t, j, 40, 900)
				require.ErrorIs(t, err, ErrNoRoom)
				require.ErrorIs(t, err, syscall.ENOSPC)
				synctest.Wait()
				require.Equal(t, before, fs.used(), "what was made for it is gone")
				require.NoError(t, j.Room())
				require.NoError(t, claimed(t, j, j.Claim, 10))
			}
			fs.setRoom(-1)
			require.NoError(t, claimMany(t, j, 40, 900))
			j.Unclaim(40, 900)
		})
	}
}

// TestAClaimOfManyLeavesTheReserve: ClaimMany leaves the room that ClaimReserve may use.
func TestAClaimOfManyLeavesTheReserve(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fs.setRoom(0)
		claims := 0
		for ; ; claims++ {
			if err := claimMany(t, j, 1, 40); err != nil {
				require.ErrorIs(t, err, ErrNoRoom)
				break
			}
		}
		require.Positive(t, claims)
		require.GreaterOrEqual(t, j.RoomBytes(), j.ReserveBytes())
		require.NoError(t, claimed(t, j, j.ClaimReserve, 40))
		j.Unclaim(claims, 40)
	})
}

// TestAClaimGoesOnAsSoonAsThereIsRoom: a waiting claim is woken when a written record or another claim
// gives back room, even if no segment is being made.
func TestAClaimGoesOnAsSoonAsThereIsRoom(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, *Journal, *memFS) (giveBack func()){
		"a record is written that was charged twice its bytes": func(t *testing.T, j *Journal, fs *memFS) func() {
			gate := make(chan struct{})
			fs.mu.Lock()
			fs.files[segmentPath(memDir, 1)].gate = gate
			fs.mu.Unlock()
			require.NoError(t, j.Claim(1300))
			_, err := j.AppendClaimed(payload(1, 1300), 1300)
			require.NoError(t, err)
			synctest.Wait() // the record is being synced
			return func() { close(gate) }
		},
		"a claim of many is given back": func(t *testing.T, j *Journal, _ *memFS) func() {
			require.NoError(t, claimMany(t, j, 2, 400))
			return func() { j.Unclaim(2, 400) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, fs *memFS) {
				j := mustOpenMem(t, fs, small)
				giveBack := begin(t, j, fs)
				require.NoError(t, j.Claim(1300)) // this claim stays unused
				left := j.RoomBytes() - j.ReserveBytes()
				waits := make(chan error, 1)
				go func() { waits <- j.Claim(int(left) / 2) }() // with its header it needs slightly more than is left
				synctest.Wait()
				require.Empty(t, waits)
				giveBack()
				require.NoError(t, <-waits)
			})
		})
	}
}

// TestASpareThatTheFlusherHasIsNotDropped: the count of spares stays correct if the flusher uses the spare that was
// about to be removed.
func TestASpareThatTheFlusherHasIsNotDropped(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		require.NoError(t, claimMany(t, j, 40, 900))
		j.Unclaim(40, 900)
		synctest.Wait()
		var taken []spare
		for s, ok := j.allocator.pop(false); ok; s, ok = j.allocator.pop(false) {
			taken = append(taken, s)
		}
		room := j.RoomBytes()
		j.allocator.trim()
		require.Equal(t, room, j.RoomBytes())
		j.allocator.mu.Lock()
		j.allocator.ready = taken
		j.allocator.mu.Unlock()
	})
}

// TestAClaimIsNotRefusedForADiskThatWasFullBefore fills the disk while no ClaimMany waits. Once the disk
// has room again, ClaimMany succeeds.
func TestAClaimIsNotRefusedForADiskThatWasFullBefore(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		fs.setRoom(0)
		require.NoError(t, claimMany(t, j, 1, 1200)) // uses most of the next segment
		synctest.Wait()
		fs.setRoom(-1)
		require.NoError(t, claimMany(t, j, 40, 900))

		fs.setRoom(0)
		wait, err := j.ClaimMany(80, 900)
		require.NoError(t, err)
		<-wait
		j.Forgo()
		fs.setRoom(-1)
		require.NoError(t, claimMany(t, j, 80, 900))
	})
}

// TestSegmentsThatNobodyNeedsAreRemoved: the disk usage grows only by the records that were appended.
func TestSegmentsThatNobodyNeedsAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		synctest.Wait() // wait until the usual spare is ready
		before := fs.used()
		require.NoError(t, claimMany(t, j, 40, 900))
		require.Greater(t, fs.used(), before+10*4096)
		seq, err := j.AppendMany(payload(1, 20), 900)
		require.NoError(t, err)
		require.NoError(t, j.Wait(background, seq))
		j.Unclaim(39, 900)
		time.Sleep(2 * spareKeep)
		synctest.Wait()
		require.Equal(t, before, fs.used())
		require.NoError(t, claimed(t, j, j.Claim, 10))

		wait, err := j.ClaimMany(40, 900)
		require.NoError(t, err)
		require.NotNil(t, wait)
		j.Forgo()
		time.Sleep(2 * spareKeep)
		synctest.Wait()
		require.Equal(t, before, fs.used(), "what a claim waited for that is not tried again")
		require.Zero(t, j.room.charged)
	})
}

func TestAClaimOfManyIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, fs *memFS) {
		j := mustOpenMem(t, fs, small)
		_, err := j.ClaimMany(2, j.ClaimBytesMax()+1)
		require.ErrorIs(t, err, ErrTooLarge, "a record that fits into no segment")
		each := int(charge(recordBytes(1000)))
		_, err = j.ClaimMany(claimBytesMax/each+1, 1000)
		require.ErrorIs(t, err, ErrTooLarge)
		wait, err := j.ClaimMany(claimBytesMax/each, 1000)
		require.NoError(t, err)
		require.NotNil(t, wait)
		j.Forgo()
		require.NoError(t, j.Close())
		_, err = j.ClaimMany(1, 1)
		require.ErrorIs(t, err, ErrClosed)
	})
}
