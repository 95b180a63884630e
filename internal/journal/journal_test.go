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

// newest is the record version that the tests read and write.
const newest = 3

// small sets segments so small that a few records fill one.
var small = Options{Version: newest, SegmentBytes: 4096}

func mustOpen(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// gated opens a journal in which each sync waits for a value from the channel.
func gated(t *testing.T) (*Journal, chan struct{}) {
	t.Helper()
	fs := newMemFS()
	j, err := open(fs, memDir, Options{Version: newest, SegmentBytes: 1 << 20})
	require.NoError(t, err)
	gate := make(chan struct{})
	fs.mu.Lock()
	fs.files[segmentPath(memDir, 1)].gate = gate
	fs.mu.Unlock()
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j, gate
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

// contents reads the records in a directory and checks the content of each. It returns the first and the
// last seq.
func contents(t testing.TB, dir string, size int) (first, last uint64) {
	t.Helper()
	require.NoError(t, Scan(dir, newest, func(seq uint64, b []byte) error {
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
	j := mustOpen(t, dir, Options{Version: newest, FirstSeq: 42, SegmentBytes: 4096})
	require.Equal(t, uint64(42), j.First())
	require.Equal(t, 1, j.SegmentCount())
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
	_, err = j.Append(make([]byte, RecordBytesMax+1))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "1073741825 bytes")
	require.Equal(t, uint64(len(sizes)), j.Appended(), "a refused record uses no number")
	require.NoError(t, j.Close())
	n := 0
	require.NoError(t, Scan(dir, newest, func(seq uint64, b []byte) error {
		require.Equal(t, want[seq-1], b)
		n++
		return nil
	}))
	require.Equal(t, len(sizes), n)
	mustOpen(t, dir, small)
}

func TestOversizeFirstRecordReplacesTheEmptySegment(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 1, 10_000)
	require.Equal(t, 1, j.SegmentCount())
	fill(t, j, 3, 10_000)
	require.Equal(t, 3, j.SegmentCount())
	require.NoError(t, j.RemoveBefore(2))
	require.NoError(t, j.Close())
	first, last := contents(t, dir, 10_000)
	require.Equal(t, [2]uint64{2, 3}, [2]uint64{first, last})
}

func TestManyAppendersShareSyncs(t *testing.T) {
	var mu sync.Mutex
	records, syncs := 0, 0
	j := mustOpen(t, t.TempDir(), Options{Version: newest, SegmentBytes: 1 << 20,
		OnSync: func(n, bytes int, took time.Duration) {
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
	j := mustOpen(t, t.TempDir(), Options{Version: newest, SegmentBytes: 1 << 20, PendingBytesMax: 2000})
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

func TestOneSyncWakesWhomItCovers(t *testing.T) {
	j, gate := gated(t)
	wait := func(seq uint64) chan error {
		done := make(chan error, 1)
		go func() { done <- j.Wait(background, seq) }()
		return done
	}
	_, err := j.Append(payload(1, 50))
	require.NoError(t, err)
	writing := func() bool { // whether the first record's batch is being written
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.writing != nil
	}
	require.Eventually(t, writing, time.Minute, time.Millisecond)
	for seq := uint64(2); seq <= 3; seq++ {
		_, err = j.Append(payload(seq, 50))
		require.NoError(t, err)
	}
	first, second, third := wait(1), wait(2), wait(3)
	require.Equal(t, 3*recordBytes(50), j.UnsyncedBytes())
	gate <- struct{}{}
	require.NoError(t, <-first)
	require.Equal(t, uint64(1), j.Synced())
	require.Empty(t, second)
	require.Empty(t, third)
	gate <- struct{}{} // allow one sync, for both records
	require.NoError(t, <-second)
	require.NoError(t, <-third)
	require.Equal(t, uint64(3), j.Synced())
	require.Zero(t, j.UnsyncedBytes())
	close(gate)
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

// TestHelperOpens is run as the other process by TestDirectoryIsLocked. Run on its own, it opens a new
// directory.
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

func TestLeftoverFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, small).Close()
	left := filepath.Join(dir, "next-0"+spareSuffix)
	require.NoError(t, os.WriteFile(left, []byte("half of a segment"), 0o600))
	j := mustOpen(t, dir, Options{Version: newest, SegmentBytes: 8192})
	fill(t, j, 100, 500)
	require.NoError(t, j.Close())
	names, err := disk{}.list(dir)
	require.NoError(t, err)
	require.Equal(t, "LOCK", names[len(names)-1])
	for _, name := range names[:len(names)-1] {
		require.Equal(t, segmentSuffix, filepath.Ext(name))
	}
}

func TestUnusablePathsAreNamed(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	_, err := Open(filepath.Join(plain, "journal"), small)
	require.ErrorContains(t, err, plain)
	_, err = Exists(plain)
	require.ErrorContains(t, err, plain)
	require.ErrorContains(t, Scan(plain, newest, nil), plain)
	require.ErrorContains(t, SetAside(plain, "old"), plain)
}

func TestScanNeedsNoRightToWrite(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 40, 90)
	flags := map[int]int{}
	_, err := scan(flagFS{flags: flags}, dir, newest, func(record) error { return nil })
	require.NoError(t, err)
	require.Equal(t, map[int]int{os.O_RDONLY: 2 * j.SegmentCount()}, flags)
}

// flagFS counts how often files are opened with each combination of flags.
type flagFS struct {
	disk
	flags map[int]int
}

func (f flagFS) open(path string, flag int) (file, error) {
	f.flags[flag]++
	return f.disk.open(path, flag)
}

func TestSetAsideKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	id := j.ID()
	fill(t, j, 100, 90)
	require.ErrorContains(t, SetAside(dir, "old"), "in use")
	require.NoError(t, j.Close())
	require.NoError(t, SetAside(dir, "old"))
	require.ErrorIs(t, SetAside(dir, "old"), os.ErrExist, "nothing is overwritten")
	_, last := contents(t, filepath.Join(dir, "old"), 90)
	require.Equal(t, uint64(100), last)
	j = mustOpen(t, dir, Options{Version: newest, FirstSeq: 77, SegmentBytes: 4096})
	require.Equal(t, uint64(77), j.First())
	require.NotEqual(t, id, j.ID())
}

func TestScanStopsAtTheFirstError(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, small)
	fill(t, j, 10, 20)
	enough := errors.New("enough")
	n := 0
	require.ErrorIs(t, Scan(dir, newest, func(uint64, []byte) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	}), enough)
	require.Equal(t, 3, n)
}
