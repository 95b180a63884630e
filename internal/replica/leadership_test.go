package replica

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/journal"
)

var _ engine.Shared = (*Replica)(nil)

// newTestLeadership returns a leadership that starts after record 7, with a journal of the given
// segment size.
func newTestLeadership(t *testing.T, segmentBytes int64) *leadership {
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"), journal.Options{Version: 1, FirstSeq: 8,
		SegmentBytes: segmentBytes})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	l := newLeadership(j, func() {})
	require.Equal(t, uint64(7), l.Appended(), "before it leads, Appended is the journal's")
	_, err = l.AppendClaimed([]byte("early"), 5)
	require.ErrorIs(t, err, ErrNotLeading)
	require.True(t, l.begin(7))
	return l
}

func (l *leadership) mustAppend(t *testing.T, record string) uint64 {
	t.Helper()
	require.NoError(t, l.Claim(len(record)))
	seq, err := l.AppendClaimed([]byte(record), len(record))
	require.NoError(t, err)
	return seq
}

// waits returns the result of a waiting call, or an error if it is still waiting.
func waits(call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return call(ctx)
}

// TestRecordsGetTheirPlaceAtOnce appends, proposes and commits by hand.
func TestRecordsGetTheirPlaceAtOnce(t *testing.T) {
	l := newTestLeadership(t, 1<<20)
	require.Nil(t, l.nextBatch(), "no record was appended")
	require.Equal(t, uint64(8), l.mustAppend(t, "a"))
	require.Equal(t, uint64(9), l.mustAppend(t, "b"))
	first := l.nextBatch()
	require.Equal(t, [][]byte{[]byte("a"), []byte("b")}, first.memory.records(nil))
	require.Equal(t, []uint64{8, 9}, []uint64{first.first, first.last})
	l.recycle(first)
	require.Equal(t, uint64(10), l.mustAppend(t, "c"))

	wait := func(seq uint64) error {
		return waits(func(ctx context.Context) error { return l.Wait(ctx, seq) })
	}
	wake := make(chan struct{}, 1)
	l.Notify(9, wake)
	require.ErrorIs(t, wait(8), context.Canceled)
	require.Empty(t, wake)
	require.Equal(t, uint64(7), l.Synced())

	l.commit(9)
	require.NoError(t, wait(9))
	require.Len(t, wake, 1)
	require.ErrorIs(t, wait(10), context.Canceled)
	require.Equal(t, []uint64{9, 10}, []uint64{l.Synced(), l.Appended()})

	second := l.nextBatch()
	require.Equal(t, [][]byte{[]byte("c")}, second.memory.records(nil), "the memory of the first batch is used again")
	l.commit(10)
	require.NoError(t, wait(10))
}

// TestBatchesAreBounded checks that many records are proposed in several batches.
func TestBatchesAreBounded(t *testing.T) {
	l := newTestLeadership(t, 16<<20)
	record := string(make([]byte, batchBytesMax/2))
	large := string(make([]byte, 3*batchBytesMax))
	for _, r := range []string{record, record, record, large, "x"} {
		l.mustAppend(t, r)
	}
	var sizes []int
	for b := l.nextBatch(); b != nil; b = l.nextBatch() {
		sizes = append(sizes, len(b.memory.bytes))
	}
	require.Equal(t, []int{batchBytesMax, batchBytesMax / 2, 3 * batchBytesMax, 1}, sizes)
}

// TestAppendersWait checks that appenders wait while too many bytes are in transit, until the journal has received
// some of them.
func TestAppendersWait(t *testing.T) {
	l := newTestLeadership(t, 64<<20)
	record := make([]byte, 16<<20)
	for range gatherBytesMax / len(record) {
		_, err := l.append(record, claim{})
		require.NoError(t, err)
	}
	appended := make(chan error, 2)
	go func() {
		_, err := l.append([]byte("one more"), claim{})
		appended <- err
	}()
	settle(t, "append", func() bool { return l.Appended() == 11 })
	require.Empty(t, appended)
	for b := l.nextBatch(); b != nil; b = l.nextBatch() {
		l.commit(b.last)
	}
	require.Empty(t, appended, "a commit is not enough while the journal lacks the record")
	_, ok := l.takeClaim(8, len(record))
	require.True(t, ok)
	require.NoError(t, <-appended)

	go func() {
		_, err := l.append(record, claim{})
		appended <- err
	}()
	settle(t, "append", func() bool { return l.Appended() == 12 })
	l.end(ErrDeposed)
	require.ErrorIs(t, <-appended, ErrDeposed, "an end wakes waiting appenders")
}

// settle waits until a goroutine waits in a sync.Cond called from the named function, and so has done everything
// before that.
func settle(t *testing.T, function string, also func() bool) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		all := string(stacks[:runtime.Stack(stacks, true)])
		if also() && inOneStack(all, "sync.(*Cond).Wait", "leadership)."+function) {
			return
		}
		require.False(t, time.Now().After(end), "no goroutine waits in %s", function)
	}
}

// TestAClaimStaysUntilTheJournalHasTheRecord checks that a claim stays charged in this node's
// journal until the apply goroutine appends the record.
func TestAClaimStaysUntilTheJournalHasTheRecord(t *testing.T) {
	l := newTestLeadership(t, 1<<20)
	free := l.journal.RoomBytes()
	require.NoError(t, l.Claim(1000))
	charged := free - l.journal.RoomBytes()
	require.GreaterOrEqual(t, charged, int64(2000))
	wait, err := l.ClaimMany(2, 1000)
	require.NoError(t, err)
	require.Nil(t, wait)
	require.Equal(t, 3*charged, free-l.journal.RoomBytes())

	_, err = l.AppendClaimed([]byte("one"), 1000)
	require.NoError(t, err)
	_, err = l.AppendMany([]byte("two"), 1000)
	require.NoError(t, err)
	l.Unclaim(1, 1000)
	l.nextBatch()
	l.commit(9)
	require.Equal(t, 2*charged, free-l.journal.RoomBytes(), "committed, and not appended yet")

	r := &Replica{leadership: l, journal: l.journal}
	require.NoError(t, r.appendRecord(8, []byte("one")))
	require.NoError(t, r.appendRecord(9, []byte("two")))
	require.NoError(t, l.journal.Wait(t.Context(), 9))
	require.Less(t, free-l.journal.RoomBytes(), charged, "only the length of the records is charged")
	_, ok := l.takeClaim(10, 3)
	require.False(t, ok)
}

// TestNoRecordIsTooLongForOthers checks that a claim for a record that is too long for an entry is
// refused.
func TestNoRecordIsTooLongForOthers(t *testing.T) {
	l := newTestLeadership(t, 96<<20)
	for _, err := range []error{l.Claim(l.ClaimBytesMax() + 1), l.ClaimReserve(l.ClaimBytesMax() + 1)} {
		refusal, ok := errors.AsType[engine.Refusal](err)
		require.True(t, ok, "%v", err)
		require.False(t, refusal.NoRoom())
	}
	_, err := l.ClaimMany(1, l.ClaimBytesMax()+1)
	require.ErrorIs(t, err, journal.ErrTooLarge)
	require.NoError(t, l.Claim(l.ClaimBytesMax()))
}

// TestReadsAreConfirmed checks that a read is confirmed by a round that starts after it, or by a
// later record, and only once all records before it are committed.
func TestReadsAreConfirmed(t *testing.T) {
	l := newTestLeadership(t, 1<<20)
	wait := func(seq, round uint64) error {
		return waits(func(ctx context.Context) error { return l.WaitConfirmed(ctx, seq, round) })
	}
	_, ok := l.beginRound()
	require.False(t, ok, "no caller waits")
	before := l.Round()
	require.NoError(t, wait(7, 0))
	require.ErrorIs(t, wait(7, before), context.Canceled)
	ours, ok := l.beginRound()
	require.True(t, ok)
	require.Equal(t, before, ours)
	during := l.Round()
	require.Greater(t, during, before, "a round confirms no read after its start")

	wakes := []chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
	l.NotifyConfirmed(7, before, wakes[0])
	l.NotifyConfirmed(7, during, wakes[1])
	l.confirm(ours)
	require.Len(t, wakes[0], 1)
	require.Empty(t, wakes[1])
	require.True(t, l.Confirmed(7, before))
	require.False(t, l.Confirmed(7, during))
	require.NoError(t, wait(7, before))
	require.ErrorIs(t, wait(7, during), context.Canceled)

	l.mustAppend(t, "a later record")
	l.nextBatch()
	require.ErrorIs(t, wait(7, during), context.Canceled)
	require.Equal(t, uint64(2), during)
	l.commit(8)
	require.NoError(t, wait(7, during), "the later record confirms it")
	require.False(t, l.Confirmed(8, during), "it does not confirm what was read after it")
	require.False(t, l.Confirmed(0, during), "only rounds confirm a read without a seq")
	require.ErrorIs(t, wait(0, during), context.Canceled)
	require.Empty(t, wakes[1], "it waits for its round")
	l.confirm(during)
	require.Len(t, wakes[1], 1)

	l.mustAppend(t, "not committed")
	l.confirm(9)
	require.False(t, l.Confirmed(9, 9), "confirmed, but not committed")
	l.NotifyConfirmed(9, 10, wakes[0])
	<-wakes[0] // the wake-up of the notification above
	l.nextBatch()
	l.commit(9)
	require.Empty(t, wakes[0], "committed, but not confirmed")
	l.confirm(10)
	require.Len(t, wakes[0], 1)
}

// TestNothingIsToldAfterTheEnd checks that nothing is committed or confirmed after the leadership
// has ended.
func TestNothingIsToldAfterTheEnd(t *testing.T) {
	l := newTestLeadership(t, 1<<20)
	l.mustAppend(t, "committed")
	l.nextBatch()
	l.commit(8)
	l.mustAppend(t, "not committed")
	l.nextBatch()
	wakes := make(chan struct{}, 1)
	l.Notify(9, wakes)
	confirmed := make(chan struct{}, 1)
	l.NotifyConfirmed(9, l.Round(), confirmed)
	waited := make(chan error, 2)
	go func() { waited <- l.Wait(t.Context(), 9) }()
	go func() { waited <- l.WaitConfirmed(t.Context(), 9, l.Round()) }()

	l.end(ErrDeposed)
	l.end(ErrClosed)
	require.ErrorIs(t, <-waited, ErrDeposed)
	require.ErrorIs(t, <-waited, ErrDeposed)
	require.Len(t, wakes, 1)
	require.Len(t, confirmed, 1)
	l.commit(9)
	l.confirm(100)
	require.Equal(t, uint64(8), l.Synced(), "the record of another leader may be committed in this place")
	require.ErrorIs(t, l.Wait(t.Context(), 8), ErrDeposed)
	require.ErrorIs(t, l.WaitConfirmed(t.Context(), 8, 0), ErrDeposed)
	require.False(t, l.Confirmed(8, 0))
	_, err := l.AppendClaimed([]byte("late"), 4)
	require.ErrorIs(t, err, ErrDeposed)
	require.ErrorIs(t, l.Claim(4), ErrDeposed)
	require.False(t, l.begin(9))
	late := make(chan struct{}, 1)
	l.Notify(100, late)
	require.Len(t, late, 1)
}
