package trail

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/journal"
)

// item is the value of a record that has a number. Both of its fields have the number, until it is recycled.
type item struct {
	n      uint64
	memory *uint64
}

// itemMemory pools the memory of recycled items, so that it is soon reused.
var itemMemory = sync.Pool{New: func() any { return new(uint64) }}

func newItem(n uint64) item {
	memory := itemMemory.Get().(*uint64)
	*memory = n
	return item{n, memory}
}

func (i *item) recycle() {
	if i.memory != nil {
		*i.memory = math.MaxUint64
		itemMemory.Put(i.memory)
	}
	*i = item{}
}

// number returns the item's number, or 0 if its memory was recycled.
func (i *item) number() uint64 {
	if *i.memory != i.n {
		return 0
	}
	return i.n
}

// recordOf returns a short record that contains a number; numberIn returns that number.
func recordOf(n uint64) []byte { return binary.LittleEndian.AppendUint64(make([]byte, 32), n) }

func numberIn(record []byte) uint64 { return binary.LittleEndian.Uint64(record[32:]) }

// bad is a record that cannot be decoded.
var bad = []byte("bad")

func decodeItem(record []byte, into *item) error {
	if len(record) != len(recordOf(0)) {
		return errors.New("not an item")
	}
	*into = newItem(numberIn(record))
	return nil
}

// itemOptions are the options of a trail of items whose ring has the given number of pages.
func itemOptions(pages int) Options[item] {
	return Options[item]{Decode: func() func([]byte, *item) error { return decodeItem },
		Extra: func(i *item) int { return int(i.n%2) * 100 }, Work: func(*item) int { return 1 },
		Recycle: (*item).recycle, pages: pages, bytes: 1 << 20}
}

// put puts a record on the trail.
func (t *Trail[E]) put(seq uint64, value E) {
	if at := t.Place(seq); at.Value != nil {
		*at.Value = value
		at.Put()
	}
}

func openJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.TempDir(), journal.Options{Version: 1, SegmentBytes: 16 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// appendItems appends records with the numbers first to last, and puts them on the trails.
func appendItems(t *testing.T, j *journal.Journal, first, last uint64, trails ...*Trail[item]) {
	t.Helper()
	for n := first; n <= last; n++ {
		seq, err := j.Append(recordOf(n))
		require.NoError(t, err)
		for _, one := range trails {
			one.put(seq, newItem(n))
		}
	}
	require.NoError(t, j.Wait(t.Context(), j.Appended()))
}

// follow returns a follower of all records of the journal.
func follow(t *testing.T, all *Trail[item], o FollowOptions) *Follower[item] {
	t.Helper()
	o.HoldMax = math.MaxUint64
	f, err := all.Follow(o)
	require.NoError(t, err)
	return f
}

// take requires that a follower passes on the records from first to last, whose numbers are their seqs, and no more.
func take(t *testing.T, f *Follower[item], first, last uint64) {
	t.Helper()
	for want := first; want <= last; want++ {
		seq, value, ok, err := f.TryNext()
		require.NoError(t, err)
		require.True(t, ok, want)
		require.Equal(t, [2]uint64{want, want}, [2]uint64{seq, value.number()})
	}
	_, _, ok, err := f.TryNext()
	require.NoError(t, err)
	require.False(t, ok)
}

// TestNothingIsPassedOnBeforeItMayBeSeen: a record on the trail is not passed on if it is not synced, or above the
// limit.
func TestNothingIsPassedOnBeforeItMayBeSeen(t *testing.T) {
	synced := make(chan struct{})
	j, err := journal.Open(t.TempDir(),
		journal.Options{Version: 1, OnSync: func(int, int, time.Duration) { synced <- struct{}{} }})
	require.NoError(t, err)
	all := New(j, itemOptions(100))
	limit := uint64(1)
	f, limited := follow(t, all, FollowOptions{}), follow(t, all, FollowOptions{Limit: func() uint64 { return limit }})
	for n := range uint64(2) {
		seq, err := j.Append(recordOf(n + 1))
		require.NoError(t, err)
		all.put(seq, newItem(n+1))
		if n == 0 {
			require.NoError(t, j.Wait(t.Context(), 1)) // the flusher then blocks in OnSync, which holds back the next sync
		}
	}
	take(t, f, 1, 1)
	take(t, limited, 1, 1)
	require.Equal(t, [2]uint64{1, 1}, [2]uint64{f.Visible(), limited.Visible()})
	<-synced
	require.NoError(t, j.Wait(t.Context(), 2))
	take(t, f, 2, 2)
	take(t, limited, 2, 1)
	require.Equal(t, [2]uint64{2, 1}, [2]uint64{f.Visible(), limited.Visible()})
	limit = 2
	take(t, limited, 2, 2)
	go func() {
		for range synced {
		}
	}()
	f.Close()
	limited.Close()
	require.NoError(t, j.Close())
}

// TestPositionOfAFollower: the position is the end of the last chunk; after the follower's end, nothing is left to
// pass on.
func TestPositionOfAFollower(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(100))
	appendItems(t, j, 1, 3, all)
	f := follow(t, all, FollowOptions{After: 2})
	require.EqualValues(t, 2, f.Position())
	appendItems(t, j, 4, 10, all)
	chunk := func() error { return f.Chunk(func(uint64, *item) error { return nil }) }
	require.NoError(t, f.Step(t.Context(), Loop{Chunk: chunk}))
	require.EqualValues(t, 10, f.Position())
	f.End()
	require.EqualValues(t, uint64(math.MaxUint64), f.Position())
	appendItems(t, j, 11, 11, all)
	require.NoError(t, f.Step(t.Context(), Loop{Chunk: chunk}))
	require.EqualValues(t, uint64(math.MaxUint64), f.Position())
	f.Close()
}

// TestEachFollowerEndsAtARecordThatCannotBeDecoded: the follower gets all records before that one, and then the same
// error on every call.
func TestEachFollowerEndsAtARecordThatCannotBeDecoded(t *testing.T) {
	j := openJournal(t)
	appendItems(t, j, 1, 300)
	for range 2 {
		_, err := j.Append(bad)
		require.NoError(t, err)
	}
	appendItems(t, j, 303, 400)
	all := New(j, itemOptions(100))
	for range 2 {
		f, last := follow(t, all, FollowOptions{}), uint64(0)
		for range 2 {
			err := f.Step(t.Context(), Loop{Chunk: func() error {
				return f.Chunk(func(seq uint64, value *item) error {
					require.Equal(t, [2]uint64{last + 1, last + 1}, [2]uint64{seq, value.number()})
					last++
					return nil
				})
			}})
			require.EqualError(t, err, "journal record 301: not an item")
			require.EqualValues(t, 300, last)
		}
		f.Close()
	}
}

// TestAChunkIsBounded: a chunk is bounded by its number of records, and by its work, which a single record may exceed.
func TestAChunkIsBounded(t *testing.T) {
	j := openJournal(t)
	o := itemOptions(100)
	o.Work = func(i *item) int {
		if i.n > 1000 {
			return chunkWork/2 - 1
		}
		return 1
	}
	all := New(j, o)
	appendItems(t, j, 1, 1006, all)
	f, last, most := follow(t, all, FollowOptions{}), uint64(0), 0
	defer f.Close()
	require.NoError(t, f.Step(t.Context(), Loop{Chunk: func() error {
		begun, work := last, 0
		err := f.Chunk(func(seq uint64, value *item) error {
			last = seq
			work += o.Work(value)
			return nil
		})
		require.LessOrEqual(t, last-begun, uint64(chunkRecords))
		require.Less(t, work, chunkWork+chunkWork/2)
		most = max(most, work)
		return err
	}}))
	require.EqualValues(t, 1006, last)
	require.Greater(t, most, chunkWork, "one record more than fits")
}

// TestAFollowerThatFailsEndsAlone: only its own Run ends with its error or panic, and other followers get all records.
func TestAFollowerThatFailsEndsAlone(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(100))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := func(apply func(seq uint64, value *item) error) (*Follower[item], chan error) {
		f, ended := follow(t, all, FollowOptions{}), make(chan error, 1)
		go func() {
			defer f.End()
			ended <- f.Run(ctx, Loop{Chunk: func() error { return f.Chunk(apply) }, Listened: func() bool { return true }})
		}()
		return f, ended
	}
	var last atomic.Uint64
	well, end := run(func(seq uint64, value *item) error { last.Store(value.number()); return nil })
	_, fails := run(func(seq uint64, _ *item) error {
		if seq == 50 {
			return errors.New("wrong")
		}
		return nil
	})
	_, panics := run(func(seq uint64, _ *item) error {
		if seq == 60 {
			panic("very wrong")
		}
		return nil
	})
	appendItems(t, j, 1, 1000, all)
	require.EqualError(t, <-fails, "journal record 50: wrong")
	require.ErrorContains(t, <-panics, "panic: very wrong")
	require.NoError(t, well.Await(t.Context(), 1000))
	require.EqualValues(t, 1000, last.Load())
	require.Len(t, all.followers, 1, "the others hold nothing")
	cancel()
	require.NoError(t, <-end)
}

// TestAWaitForARecordThatFailsEndsWithItsFollower: the waiter must find the reason, so it waits until End.
func TestAWaitForARecordThatFailsEndsWithItsFollower(t *testing.T) {
	for range 200 {
		j := openJournal(t)
		all := New(j, itemOptions(100))
		f := follow(t, all, FollowOptions{})
		var why atomic.Pointer[error]
		found := make(chan bool, 1)
		waits := make(chan struct{})
		go func() {
			close(waits)
			_ = f.Await(context.Background(), 2)
			found <- why.Load() != nil
		}()
		<-waits
		go func() {
			err := f.Run(context.Background(), Loop{Listened: func() bool { return true }, Chunk: func() error {
				return f.Chunk(func(seq uint64, _ *item) error {
					if seq == 2 {
						return errors.New("wrong")
					}
					return nil
				})
			}})
			time.Sleep(time.Millisecond)
			why.Store(&err)
			f.End()
		}()
		appendItems(t, j, 1, 2, all)
		require.True(t, <-found)
		require.NoError(t, j.Close())
	}
}

// TestEachFollowerGetsEachRecordOnce has goroutines append side by side, and put what they have appended in any order,
// on a ring that is soon full. Followers are fast, slow, limited, or come and go, and segments are deleted as soon as
// no follower needs them.
func TestEachFollowerGetsEachRecordOnce(t *testing.T) {
	const shards, each = 4, 3000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, ring := range []struct{ pages, bytes int }{{1, 1 << 20}, {2, 2000}, {16, 1 << 20}, {100, 10_000}} {
		j := openJournal(t)
		o := itemOptions(ring.pages)
		o.bytes = ring.bytes
		all := New(j, o)
		var numbers sync.Map // by seq
		var limit atomic.Uint64
		ctx, cancel := context.WithCancel(t.Context())
		var running, appending sync.WaitGroup
		run := func(o FollowOptions, slow int) *Follower[item] {
			f, r := follow(t, all, o), rand.New(rand.NewPCG(seed, uint64(slow)))
			next := o.After
			running.Go(func() {
				defer f.End()
				err := f.Run(ctx, Loop{Listened: func() bool { return slow%2 == 0 }, Chunk: func() error {
					return f.Chunk(func(seq uint64, value *item) error {
						if slow > 0 && r.IntN(slow) == 0 {
							time.Sleep(time.Millisecond)
						}
						want, _ := numbers.Load(seq) // nil if its shard has not stored it yet
						if next++; seq != next || want != nil && value.number() != want || value.number() == 0 {
							t.Errorf("record %d is %d, expected record %d, %v", seq, value.number(), next, want)
							return errors.New("wrong")
						}
						return nil
					})
				}})
				if err != nil {
					t.Error(err)
				}
			})
			return f
		}
		followers := []*Follower[item]{run(FollowOptions{}, 0), run(FollowOptions{}, 2000), run(FollowOptions{}, 101),
			run(FollowOptions{Limit: limit.Load}, 0), run(FollowOptions{Limit: limit.Load}, 501)}
		for s := range uint64(shards) {
			r := rand.New(rand.NewPCG(seed, 1000+s))
			appending.Go(func() {
				for n := range uint64(each) {
					n = (s+1)<<32 + n
					seq, err := j.Append(recordOf(n))
					if err != nil {
						t.Error(err)
						return
					}
					numbers.Store(seq, n)
					if r.IntN(200) == 0 {
						time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
					}
					all.put(seq, newItem(n))
				}
			})
		}
		running.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for ctx.Err() == nil {
				limit.Store(j.Synced() - min(j.Synced(), r.Uint64N(500)))
				if err := j.RemoveBefore(j.Synced()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
				if j.Appended() == shards*each {
					limit.Store(j.Synced())
				}
			}
		})
		running.Go(func() { // a follower that reads one record at a time, and is closed and reopened repeatedly
			r := rand.New(rand.NewPCG(seed, 2))
			for ctx.Err() == nil {
				after := j.Synced()
				f, err := all.Follow(FollowOptions{After: after, HoldMax: math.MaxUint64})
				if err != nil {
					t.Error(err)
					return
				}
				for n := range r.Uint64N(200) {
					seq, value, err := f.Next(ctx)
					if ctx.Err() != nil {
						break
					}
					if err != nil || seq != after+n+1 || value.number() == 0 {
						t.Errorf("record %d after %d is %v, %v", seq, after+n, value, err)
					}
				}
				f.Close()
			}
		})
		appending.Wait()
		limit.Store(math.MaxUint64)
		for _, f := range followers {
			require.NoError(t, f.Await(t.Context(), shards*each))
		}
		cancel()
		running.Wait()
		require.NoError(t, j.Close())
		require.Empty(t, all.followers)
	}
}
