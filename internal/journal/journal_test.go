package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var background = context.Background()

// small makes segments that a few records fill.
var small = Options{SegmentBytes: 4096}

func mustOpen(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// fill appends records up to seq last and waits for them.
func fill(t testing.TB, j *Journal, last uint64, size int) {
	t.Helper()
	for seq := j.Appended() + 1; seq <= last; seq++ {
		got, err := j.Append(payload(seq, size))
		require.NoError(t, err)
		require.Equal(t, seq, got)
	}
	require.NoError(t, j.Wait(background, last))
}

// contents reads a directory's records and checks that each is the right one.
func contents(t testing.TB, dir string, size int) (first, last uint64) {
	t.Helper()
	require.NoError(t, Scan(dir, func(seq uint64, b []byte) error {
		if first == 0 {
			first = seq
		}
		last = seq
		require.Equal(t, payload(seq, size), b)
		return nil
	}))
	return first, last
}

func TestRecordsSurviveReopening(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	id := j.ID()
	fill(t, j, 500, 90)
	require.Greater(t, j.SegmentCount(), 5, "the records fill several segments")
	require.NoError(t, j.Close())

	j = mustOpen(t, dir, small)
	require.Equal(t, id, j.ID())
	require.Equal(t, uint64(500), j.Appended())
	require.Equal(t, uint64(500), j.Synced())
	fill(t, j, 600, 90)
	require.NoError(t, j.Close())
	first, last := contents(t, dir, 90)
	require.Equal(t, [2]uint64{1, 600}, [2]uint64{first, last})
}

func TestFirstSeqCanBeChosen(t *testing.T) {
	dir := t.TempDir()
	there, err := Exists(dir)
	require.NoError(t, err)
	require.False(t, there)
	j := mustOpen(t, dir, Options{FirstSeq: 42, SegmentBytes: 4096})
	require.Equal(t, uint64(42), j.First())
	require.Equal(t, uint64(41), j.Appended())
	fill(t, j, 43, 20)
	there, err = Exists(dir)
	require.NoError(t, err)
	require.True(t, there)
}

func TestRecordsOfAnySizeAreKept(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	sizes := []int{1, 7, 8, 9, 4000, 4096, 50_000, 3, 1 << 20, 1}
	want := make([][]byte, len(sizes))
	for i, size := range sizes {
		want[i] = make([]byte, size)
		for k := range want[i] {
			want[i][k] = byte(i + k)
		}
		_, err := j.Append(want[i])
		require.NoError(t, err)
	}
	_, err := j.Append(nil)
	require.ErrorContains(t, err, "0 bytes")
	require.NoError(t, j.Close())
	n := 0
	require.NoError(t, Scan(dir, func(seq uint64, b []byte) error {
		require.Equal(t, want[seq-1], b)
		n++
		return nil
	}))
	require.Equal(t, len(sizes), n)
	mustOpen(t, dir, small)
}

func TestManyAppendersShareSyncs(t *testing.T) {
	var mu sync.Mutex
	records, syncs := 0, 0
	j := mustOpen(t, t.TempDir(), Options{SegmentBytes: 1 << 20, OnSync: func(n, bytes int, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		records, syncs = records+n, syncs+1
	}})
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			for range 200 {
				seq, err := j.Append([]byte("something to keep"))
				if err == nil {
					err = j.Wait(background, seq)
				}
				if err != nil || j.Synced() < seq {
					t.Errorf("record %d: %v", seq, err)
				}
			}
		})
	}
	done.Wait()
	require.NoError(t, j.Close())
	require.Equal(t, 16*200, records)
	require.Less(t, syncs, records)
}

func TestAppendWaitsWhileTooMuchIsPending(t *testing.T) {
	j := mustOpen(t, t.TempDir(), Options{SegmentBytes: 1 << 20, PendingBytesMax: 2000})
	for seq := range 2000 {
		_, err := j.Append(payload(uint64(seq), 500))
		require.NoError(t, err)
		j.mu.Lock()
		pending := len(j.pending.bytes)
		j.mu.Unlock()
		require.LessOrEqual(t, pending, 2000+500+64)
	}
	_, err := j.Append(make([]byte, 5000))
	require.NoError(t, err, "a record over the bound is let in alone")
}

func TestWaitEndsWithItsContext(t *testing.T) {
	j := mustOpen(t, t.TempDir(), small)
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, j.Wait(ctx, 7), context.Canceled)
}

func TestCloseEndsThoseWhoWait(t *testing.T) {
	j := mustOpen(t, t.TempDir(), small)
	waiting := make(chan error)
	go func() { waiting <- j.Wait(background, 7) }()
	require.NoError(t, j.Close())
	require.ErrorIs(t, <-waiting, ErrClosed)
	_, err := j.Append([]byte("x"))
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, j.Close(), "closing twice is fine")
}

func TestReaderFollowsTheJournal(t *testing.T) {
	j := mustOpen(t, t.TempDir(), small)
	const last = 2000
	r, err := j.NewReader(1)
	require.NoError(t, err)
	go func() {
		for seq := uint64(1); seq <= last; seq++ {
			j.Append(payload(seq, 60))
		}
	}()
	for seq := uint64(1); seq <= last; seq++ {
		got, b, err := r.Next(background)
		require.NoError(t, err)
		require.Equal(t, seq, got)
		require.Equal(t, payload(seq, 60), b)
		require.LessOrEqual(t, seq, j.Synced(), "only synced records are read")
	}
	_, _, ok, err := r.TryNext()
	require.NoError(t, err)
	require.False(t, ok)
	r.Close()

	r, err = j.NewReader(1234)
	require.NoError(t, err)
	defer r.Close()
	seq, b, ok, err := r.TryNext()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, uint64(1234), seq)
	require.Equal(t, payload(1234, 60), b)
}

func TestRemoveBeforeKeepsWhatIsNeeded(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 1000, 90)
	r, err := j.NewReader(400)
	require.NoError(t, err)
	require.NoError(t, j.RemoveBefore(900))
	require.LessOrEqual(t, j.First(), uint64(400), "the reader has not read it")
	require.Greater(t, j.First(), uint64(300))
	r.Close()
	require.NoError(t, j.RemoveBefore(5000))
	require.Equal(t, 1, j.SegmentCount(), "the last segment stays")
	_, err = j.NewReader(1)
	require.ErrorIs(t, err, ErrGone)
	first := j.First()
	require.NoError(t, j.Close())
	j = mustOpen(t, dir, small)
	require.Equal(t, first, j.First())
	require.Equal(t, uint64(1000), j.Appended())
}

func TestDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	_, err := Open(dir, small)
	require.ErrorContains(t, err, dir+" is in use by another process")
	out, err := exec.Command(os.Args[0], "-test.run=^TestHelperOpens$", "-test.v", "--", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "is in use by another process")
	require.NoError(t, j.Close())
	mustOpen(t, dir, small)
}

// TestHelperOpens is the other process of TestDirectoryIsLocked; alone it opens
// a directory of its own.
func TestHelperOpens(t *testing.T) {
	dir := t.TempDir()
	for i, arg := range os.Args {
		if arg == "--" {
			dir = os.Args[i+1]
		}
	}
	j, err := Open(dir, small)
	fmt.Println(err)
	if err == nil {
		require.NoError(t, j.Close())
	}
}

func TestSetAsideKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	id := j.ID()
	fill(t, j, 100, 90)
	require.NoError(t, j.Close())
	require.NoError(t, SetAside(dir, "old"))
	_, last := contents(t, filepath.Join(dir, "old"), 90)
	require.Equal(t, uint64(100), last)
	j = mustOpen(t, dir, Options{FirstSeq: 77, SegmentBytes: 4096})
	require.Equal(t, uint64(77), j.First())
	require.NotEqual(t, id, j.ID())
}

func TestScanStopsAtTheFirstError(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 10, 20)
	enough := errors.New("enough")
	n := 0
	require.ErrorIs(t, Scan(dir, func(uint64, []byte) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	}), enough)
	require.Equal(t, 3, n)
}

func ExampleJournal() {
	dir, _ := os.MkdirTemp("", "journal")
	defer os.RemoveAll(dir)
	j, err := Open(dir, Options{SegmentBytes: 1 << 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	seq, _ := j.Append([]byte("order 7 was accepted"))
	// Only now may anybody be told.
	fmt.Println(seq, j.Wait(context.Background(), seq))
	j.Close()
	Scan(dir, func(seq uint64, record []byte) error {
		fmt.Printf("%d %s\n", seq, record)
		return nil
	})
	// Output:
	// 1 <nil>
	// 1 order 7 was accepted
}

func BenchmarkAppend(b *testing.B) {
	j := mustOpen(b, b.TempDir(), Options{})
	record := payload(1, 80)
	b.ReportAllocs()
	for b.Loop() {
		j.Append(record)
	}
}

func BenchmarkAppendAndWait(b *testing.B) {
	for _, appenders := range []int{1, 64} {
		b.Run(fmt.Sprintf("appenders=%d", appenders), func(b *testing.B) {
			j := mustOpen(b, b.TempDir(), Options{})
			record := payload(1, 80)
			b.ReportAllocs()
			b.SetParallelism((appenders + 1) / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					seq, _ := j.Append(record)
					j.Wait(background, seq)
				}
			})
		})
	}
}

func BenchmarkRead(b *testing.B) {
	j := mustOpen(b, b.TempDir(), Options{})
	fill(b, j, 200_000, 80)
	b.ReportAllocs()
	r, _ := j.NewReader(1)
	for b.Loop() {
		if _, _, ok, _ := r.TryNext(); !ok {
			r.Close()
			r, _ = j.NewReader(1)
		}
	}
	r.Close()
}
