package trail

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatTheRingHasIsNotRead: a follower that is no further back than the ring reads no file.
func TestWhatTheRingHasIsNotRead(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(2))
	f := follow(t, all, FollowOptions{})
	defer f.Close()
	for n := uint64(0); n < 1000; n += pageRecords {
		appendItems(t, j, n+1, n+pageRecords, all)
		take(t, f, n+1, n+pageRecords)
	}
	require.Zero(t, all.files.read)
	require.Zero(t, all.files.readers)
	begun := j.Appended()
	last := begun + 2*pageRecords + 1
	appendItems(t, j, begun+1, last, all)
	take(t, f, begun+1, last)
	read := all.files.read
	require.NotZero(t, read, "the ring has only two pages")
	appendItems(t, j, last+1, last+50, all)
	take(t, f, last+1, last+50)
	require.Equal(t, read, all.files.read, "it has joined the ring again")
	require.Zero(t, all.files.readers)
}

// TestARecordThatWasRefusedIsNotPassedOn: once the trail is abandoned, followers read the journal's records instead.
func TestARecordThatWasRefusedIsNotPassedOn(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(100))
	f := follow(t, all, FollowOptions{})
	defer f.Close()
	for n := uint64(1); n <= 3; n++ { // proposed here, and refused
		all.put(n, newItem(90+n))
	}
	take(t, f, 1, 0)
	all.Abandon()
	for n := uint64(1); n <= 2; n++ {
		require.NoError(t, all.PutRecord(n, recordOf(n)))
		_, err := j.Append(recordOf(n))
		require.NoError(t, err)
	}
	require.NoError(t, j.Wait(t.Context(), 2))
	take(t, f, 1, 2)
	require.EqualValues(t, 2, all.files.read)
}

// TestARecordThatCannotBeDecodedIsNotPut: the error has its number.
func TestARecordThatCannotBeDecodedIsNotPut(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(100))
	require.NoError(t, all.PutRecord(1, recordOf(1)))
	require.ErrorContains(t, all.PutRecord(2, bad), "record 2: not an item")
	f := follow(t, all, FollowOptions{})
	defer f.Close()
	appendItems(t, j, 1, 2)
	take(t, f, 1, 1)
}

// TestAPageThatIsReadIsNotUsedAgain: a follower in the middle of a page reads the rest of it unchanged, while later
// records take the page's place in the ring.
func TestAPageThatIsReadIsNotUsedAgain(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(1))
	f := follow(t, all, FollowOptions{})
	defer f.Close()
	appendItems(t, j, 1, pageRecords-1, all)
	next := func(want uint64) {
		seq, value, ok, err := f.TryNext()
		require.NoError(t, err)
		require.True(t, ok, want)
		require.Equal(t, [2]uint64{want, want}, [2]uint64{seq, value.number()})
	}
	next(1)
	read := all.pages[0].Load()
	appendItems(t, j, pageRecords, 2*pageRecords-1, all)
	require.NotSame(t, read, all.pages[0].Load())
	for want := uint64(2); want < 2*pageRecords; want++ {
		next(want)
	}
	require.Zero(t, all.files.read)
	_, _, ok, err := f.TryNext() // gives the page back
	require.NoError(t, err)
	require.False(t, ok)
	written := all.pages[0].Load()
	appendItems(t, j, 2*pageRecords, 2*pageRecords, all)
	require.Same(t, written, all.pages[0].Load(), "nobody reads or writes it, so its memory is used again")
}

// TestALatePutChangesNoOtherRecord: a goroutine is delayed between the append of its record and its Put, and later
// records take the page's place in the meantime.
func TestALatePutChangesNoOtherRecord(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(1))
	var late Place[item]
	for n := uint64(1); n < 2*pageRecords; n++ {
		seq, err := j.Append(recordOf(n))
		require.NoError(t, err)
		if n == 5 {
			late = all.Place(seq)
			continue
		}
		all.put(seq, newItem(n))
	}
	*late.Value = newItem(5)
	late.Put()
	require.NoError(t, j.Wait(t.Context(), 2*pageRecords-1))
	require.EqualValues(t, 100*pageRecords/2, all.bytes.Load(), "the late value does not count")
	f := follow(t, all, FollowOptions{})
	defer f.Close()
	take(t, f, 1, 2*pageRecords-1)
	require.NotZero(t, all.files.read, "the first page has left the ring")
}

// TestALatePutSubtractsOnlyItsOwnBytes: a Put finds that its page has left the ring, and is then delayed until the page
// is used again. The bytes of the page's new values stay counted.
func TestALatePutSubtractsOnlyItsOwnBytes(t *testing.T) {
	j := openJournal(t)
	all := New(j, itemOptions(1))
	appendItems(t, j, 1, pageRecords-1, all)
	p := all.pages[0].Load()
	appendItems(t, j, pageRecords, pageRecords+9, all)
	require.True(t, p == all.pages[0].Load(), "it is used again")
	require.EqualValues(t, 5*100, all.bytes.Load())
	all.uncount(p)
	require.EqualValues(t, 5*100, all.bytes.Load())
	require.EqualValues(t, 5*100, p.extra.Load())
	all.Abandon()
	p.extra.Add(100) // a value that is put now
	all.bytes.Add(100)
	all.uncount(p)
	require.Zero(t, all.bytes.Load())
}

// TestTheBytesOfValuesThatArePutLateAreCounted has goroutines put values while their page leaves a ring of one page,
// and may be used again. In the end, the ring's bytes are those of its values.
func TestTheBytesOfValuesThatArePutLateAreCounted(t *testing.T) {
	j := openJournal(t)
	o := itemOptions(1)
	o.Extra = func(i *item) int {
		runtime.Gosched()
		return int(i.n%2) * 100
	}
	all := New(j, o)
	var putting sync.WaitGroup
	var next atomic.Uint64
	for range 4 {
		putting.Go(func() {
			for seq := next.Add(1); seq <= 300*pageRecords+1; seq = next.Add(1) {
				all.put(seq, newItem(seq))
			}
		})
	}
	putting.Wait()
	p, bytes := all.pages[0].Load(), 0
	for at := range p.slots {
		if s := &p.slots[at]; s.seq.Load()/pageRecords == p.n.Load() {
			bytes += o.Extra(&s.value)
		}
	}
	require.EqualValues(t, bytes, all.bytes.Load())
}
