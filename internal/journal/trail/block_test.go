package trail

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFilesAreReadOnceForAll: followers that go side by side through the files have each record decoded once.
func TestFilesAreReadOnceForAll(t *testing.T) {
	const records = 5000
	j := openJournal(t)
	appendItems(t, j, 1, records)
	all := New(j, itemOptions(100))
	var followers []*Follower[item]
	for range 3 {
		f := follow(t, all, FollowOptions{})
		defer f.Close()
		followers = append(followers, f)
	}
	for n := uint64(1); n <= records; n++ {
		for _, f := range followers {
			seq, value, ok, err := f.TryNext()
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, [2]uint64{n, n}, [2]uint64{seq, value.number()})
		}
	}
	require.EqualValues(t, records, all.files.read)
	appendItems(t, j, records+1, records+50, all)
	for _, f := range followers {
		take(t, f, records+1, records+50)
	}
	require.EqualValues(t, records, all.files.read)
	require.Zero(t, all.files.readers)
	require.Empty(t, all.files.blocks, "their memory is not kept")
}

// TestFilesAreReadOnceAlsoIfOneFollowerIsFaster: at a start, blocks are kept for the followers that have not begun yet.
func TestFilesAreReadOnceAlsoIfOneFollowerIsFaster(t *testing.T) {
	const records = blocksMax * blockRecords
	j := openJournal(t)
	appendItems(t, j, 1, records)
	all := New(j, itemOptions(100))
	decoded := make(map[uint64]int)
	all.options.Decode = func() func([]byte, *item) error {
		return func(record []byte, into *item) error {
			decoded[numberIn(record)]++
			return decodeItem(record, into)
		}
	}
	followers := []*Follower[item]{follow(t, all, FollowOptions{}), follow(t, all, FollowOptions{}),
		follow(t, all, FollowOptions{})}
	appendItems(t, j, records+1, records+50, all)
	for _, f := range followers {
		take(t, f, 1, records+50)
		f.Close()
	}
	require.Len(t, decoded, records)
	for n, times := range decoded {
		require.Equal(t, 1, times, n)
	}
	require.Zero(t, all.files.readers)
	require.Empty(t, all.files.blocks, "their memory is not kept")
}

// TestAFollowerThatReadsFilesHoldsUpOnlyThoseAtItsPlace: while it reads a block slowly, a follower that reads another
// block and one in the ring continue. One that needs the same block waits, and does not decode it again.
func TestAFollowerThatReadsFilesHoldsUpOnlyThoseAtItsPlace(t *testing.T) {
	const records = 5000
	j := openJournal(t)
	appendItems(t, j, 1, records)
	slow, begun := make(chan struct{}), make(chan struct{})
	o := itemOptions(100)
	o.Decode = func() func([]byte, *item) error {
		return func(record []byte, into *item) error {
			if numberIn(record) == 1 {
				close(begun) // panics if the block is read again
				<-slow
			}
			return decodeItem(record, into)
		}
	}
	all := New(j, o)
	appendItems(t, j, records+1, records+50, all)
	first, same := follow(t, all, FollowOptions{}), follow(t, all, FollowOptions{After: 1})
	other, recent := follow(t, all, FollowOptions{After: 3000}), follow(t, all, FollowOptions{After: records})
	ended := make(chan uint64, 2)
	next := func(f *Follower[item]) {
		seq, _, _, _ := f.TryNext()
		ended <- seq
	}
	go next(first)
	<-begun
	go next(same)
	take(t, other, 3001, records+50)
	take(t, recent, records+1, records+50)
	require.Empty(t, ended)
	close(slow)
	require.EqualValues(t, 3, <-ended+<-ended)
	take(t, first, 2, records+50)
	take(t, same, 3, records+50)
	require.LessOrEqual(t, all.files.read, uint64(records+blockRecords), "two blocks may overlap where the readers meet")
	for _, f := range []*Follower[item]{first, same, other, recent} {
		f.Close()
	}
}

// TestAFollowerThatPanicsWhileItReadsFilesEndsAlone: another one that waits for the same block reads it then.
func TestAFollowerThatPanicsWhileItReadsFilesEndsAlone(t *testing.T) {
	j := openJournal(t)
	appendItems(t, j, 1, 200)
	slow, begun := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o := itemOptions(100)
	o.Decode = func() func([]byte, *item) error {
		return func(record []byte, into *item) error {
			if numberIn(record) == 10 {
				once.Do(func() {
					close(begun)
					<-slow
					panic("a bug")
				})
			}
			return decodeItem(record, into)
		}
	}
	all := New(j, o)
	fails, waits := follow(t, all, FollowOptions{}), follow(t, all, FollowOptions{})
	ended := make(chan error, 1)
	go func() {
		nothing := func(uint64, *item) error { return nil }
		ended <- fails.Run(t.Context(), Loop{Chunk: func() error { return fails.Chunk(nothing) },
			Listened: func() bool { return true }})
	}()
	<-begun
	time.AfterFunc(10*time.Millisecond, func() { close(slow) })
	take(t, waits, 1, 200)
	require.ErrorContains(t, <-ended, "panic: a bug")
	waits.Close()
	require.Zero(t, all.files.readers)
	require.Empty(t, all.followers)
}

// TestALimitInsideABlockOfAnother: a follower that may see only a part of a block that another has read continues
// after that part, even once the block is no longer in memory; the journal keeps the records that it has not passed
// on.
func TestALimitInsideABlockOfAnother(t *testing.T) {
	const records = 3 * blocksMax * blockRecords
	j := openJournal(t)
	appendItems(t, j, 1, records)
	all := New(j, itemOptions(100))
	limit := uint64(10)
	ahead, limited := follow(t, all, FollowOptions{}), follow(t, all, FollowOptions{Limit: func() uint64 { return limit }})
	defer limited.Close()
	_, _, ok, err := ahead.TryNext()
	require.NoError(t, err)
	require.True(t, ok)
	take(t, limited, 1, limit)
	take(t, ahead, 2, records) // its first block is dropped
	ahead.Close()
	require.NoError(t, j.RemoveBefore(records))
	require.LessOrEqual(t, j.First(), limit+1)
	limit = records
	take(t, limited, 11, records)
}

// TestTheJournalKeepsWhatAFollowerNeeds: even if the follower has used only the ring so far.
func TestTheJournalKeepsWhatAFollowerNeeds(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(100))
	f := follow(t, all, FollowOptions{})
	appendItems(t, j, 1, 500, all)
	take(t, f, 1, 500)
	appendItems(t, j, 501, 5000, all)
	require.NoError(t, j.RemoveBefore(5000))
	require.LessOrEqual(t, j.First(), uint64(501))
	require.Greater(t, j.First(), uint64(1))
	take(t, f, 501, 5000)
	require.NoError(t, j.RemoveBefore(5000))
	require.Greater(t, j.First(), uint64(4000))
	f.Close()
}
