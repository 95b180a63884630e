package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const memDir = "/journal"

// session appends records in batches of random length and size until something
// fails, rotates over several segments, and returns the last seq that Wait
// promised.
func session(fs *memFS, seed uint64, records int) (promised uint64, err error) {
	j, err := open(fs, memDir, small)
	if err != nil {
		return 0, err
	}
	defer j.Close()
	r := rand.New(rand.NewPCG(seed, 1))
	promised = j.Synced()
	for n := 0; n < records; n++ {
		seq, err := j.Append(payload(j.Appended()+1, 20+r.IntN(900)))
		if err != nil {
			return promised, err
		}
		if r.IntN(3) > 0 {
			if err := j.Wait(background, seq); err != nil {
				return promised, err
			}
			promised = seq
		}
	}
	return promised, nil
}

// readAll checks every record of a recovered journal and returns the last seq.
func readAll(t *testing.T, fs *memFS) uint64 {
	t.Helper()
	last := uint64(0)
	_, err := scan(fs, memDir, func(_ segment, r record) error {
		last = r.seq
		want := payload(r.seq, len(r.payload))
		require.Equal(t, want, r.payload, "record %d", r.seq)
		return nil
	}, nil)
	require.NoError(t, err)
	return last
}

// TestPowerCutAtEveryStepKeepsWhatWasPromised cuts the power at every write,
// sync, create, rename and directory sync of a session, several times each, with
// what was not synced kept, dropped and torn sector by sector.
func TestPowerCutAtEveryStepKeepsWhatWasPromised(t *testing.T) {
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
			after := fs.afterPowerCut(rand.New(rand.NewPCG(uint64(at), variant)))
			j, err := open(after, memDir, small)
			require.NoErrorf(t, err, "step %d variant %d", at, variant)
			require.GreaterOrEqualf(t, j.Synced(), promised, "step %d variant %d", at, variant)
			seq, err := j.Append(payload(j.Appended()+1, 100))
			require.NoError(t, err)
			require.NoError(t, j.Wait(background, seq))
			require.NoError(t, j.Close())
			require.Equal(t, seq, readAll(t, after))
		}
	}
}

// TestAFailedStepEndsTheJournal fails every step with an error of the disk: what
// was promised before is there, nothing is promised after.
func TestAFailedStepEndsTheJournal(t *testing.T) {
	const seed, records = 12, 40
	t.Logf("seed %d", seed)
	broken := errors.New("input/output error")
	for at := 1; ; at++ {
		fs := newMemFS()
		fs.failAt, fs.failing = at, broken
		promised, err := session(fs, seed, records)
		if err == nil && fs.calls < at {
			return
		}
		fs.mu.Lock()
		fs.failAt = 0
		fs.mu.Unlock()
		require.GreaterOrEqual(t, readAll(t, fs.clone()), promised)
	}
}

func TestFailureIsFinalAndTold(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	defer j.Close()
	fill(t, j, 3, 50)
	fs.mu.Lock()
	fs.failAt = fs.calls + 1
	fs.mu.Unlock()
	seq, err := j.Append([]byte("lost"))
	require.NoError(t, err)
	require.ErrorIs(t, j.Wait(background, seq), errPower)
	<-j.Failed()
	require.ErrorIs(t, j.Err(), errPower)
	fs.mu.Lock()
	fs.failAt = 0
	fs.mu.Unlock()
	_, err = j.Append([]byte("too late"))
	require.ErrorIs(t, err, errPower, "there is no retry")
	require.ErrorIs(t, j.Wait(background, seq), errPower)
	require.NoError(t, j.Wait(background, 3), "what was synced stays so")
}

// idle tells whether the last try to make a segment has ended, either way.
func (a *allocator) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready != nil || a.err != nil
}

func TestNoRoomIsToldAndMended(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	defer j.Close()
	setFull := func(full bool) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.full = full
	}
	// The next segment may be ready already: then the one after it is missing.
	setFull(true)
	for j.Room() == nil {
		fill(t, j, j.Appended()+1, 500)
		require.Eventually(t, j.allocator.idle, 10*time.Second, time.Millisecond)
	}
	require.ErrorContains(t, j.Room(), "no space left")
	fill(t, j, j.Appended()+1, 20) // the present segment still takes records
	setFull(false)
	require.Eventually(t, func() bool { return j.Room() == nil }, 10*time.Second, 10*time.Millisecond)
	fill(t, j, j.Appended()+50, 500)
}

// damaged returns a journal of several segments that was closed, as it is on disk.
func damaged(t *testing.T, closed bool) *memFS {
	t.Helper()
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	for range 60 {
		fill(t, j, j.Appended()+1, 200)
	}
	if closed {
		require.NoError(t, j.Close())
		return fs
	}
	cut := fs.clone()
	require.NoError(t, j.Close())
	return cut
}

// refused opens and demands a DamageError that names file and offset.
func refused(t *testing.T, fs *memFS, what string, args ...any) {
	t.Helper()
	j, err := open(fs, memDir, small)
	if err == nil {
		j.Close()
	}
	var damage *DamageError
	require.ErrorAs(t, err, &damage, fmt.Sprintf(what, args...))
	require.Contains(t, err.Error(), damage.File)
	require.Contains(t, err.Error(), fmt.Sprintf("offset %d", damage.Offset))
}

func lastSegment(t *testing.T, fs *memFS) (segment, *memFile) {
	t.Helper()
	all, err := segments(fs, memDir)
	require.NoError(t, err)
	s := all[len(all)-1]
	return s, fs.files[s.path]
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	t.Run("after an orderly close", func(t *testing.T) {
		fs := damaged(t, true)
		s, f := lastSegment(t, fs)
		end, next, err := walk(f.data, s.first, nil)
		require.NoError(t, err)
		require.Equal(t, uint64(61), next)
		for at := segmentHeader; at < end; at++ {
			if isPadding(f.data, at) {
				continue // padding says nothing
			}
			one := fs.clone()
			one.files[s.path].data[at] ^= 0x40
			refused(t, one, "byte %d", at)
		}
	})
	t.Run("after a crash, before the last record", func(t *testing.T) {
		fs := damaged(t, false)
		s, f := lastSegment(t, fs)
		lastAt := 0
		for at, next := segmentHeader, s.first; ; next++ {
			r, ok := parseRecord(f.data[at:])
			if !ok || r.seq != next {
				break
			}
			lastAt, at = at, at+r.size
		}
		for at := segmentHeader; at < lastAt; at++ {
			one := fs.clone()
			one.files[s.path].data[at] ^= 0x01
			if !isPadding(f.data, at) {
				refused(t, one, "byte %d", at)
			}
		}
	})
}

// isPadding tells whether a byte lies behind the payload of a record.
func isPadding(b []byte, at int) bool {
	for i := segmentHeader; ; {
		r, ok := parseRecord(b[i:])
		if !ok {
			return false
		}
		if at < i+r.size {
			return at >= i+recordHeader+len(r.payload)
		}
		i += r.size
	}
}

func TestDamageOfWholeSegmentsIsRefused(t *testing.T) {
	whole := damaged(t, true)
	all, err := segments(whole, memDir)
	require.NoError(t, err)
	require.Greater(t, len(all), 3)
	other := damaged(t, true)
	for i, s := range all {
		last := i == len(all)-1
		for what, harm := range map[string]func(fs *memFS){
			"header flipped":   func(fs *memFS) { fs.files[s.path].data[20] ^= 1 },
			"truncated":        func(fs *memFS) { fs.files[s.path].data = fs.files[s.path].data[:300] },
			"emptied":          func(fs *memFS) { fs.files[s.path].data = nil },
			"sector zeroed":    func(fs *memFS) { clear(fs.files[s.path].data[512:1024]) },
			"of another":       func(fs *memFS) { fs.files[s.path].data = other.files[s.path].data },
			"name of the next": func(fs *memFS) { fs.files[s.path].data = fs.files[all[(i+1)%len(all)].path].data },
			"a name of no segment": func(fs *memFS) {
				fs.files[filepath.Join(memDir, "x"+segmentSuffix)] = fs.files[s.path]
			},
		} {
			if last && what == "truncated" {
				continue // its end mark is gone with the rest: like a crash
			}
			fs := whole.clone()
			harm(fs)
			refused(t, fs, "segment %d: %s", i, what)
		}
		if i > 0 && !last {
			fs := whole.clone()
			delete(fs.files, s.path)
			refused(t, fs, "segment %d missing", i)
		}
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	fs := damaged(t, true)
	s, f := lastSegment(t, fs)
	header := appendHeader(nil, [16]byte{1}, s.first)
	header[8] = formatVersion + 1
	sum := recomputed(header)
	copy(f.data, sum)
	_, err := open(fs, memDir, small)
	require.ErrorContains(t, err, "format version 2, this program reads version 1")
}

func TestTornTailIsCutAtEveryByte(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, small)
	require.NoError(t, err)
	fill(t, j, 5, 100)
	before := fs.clone()
	s, f := lastSegment(t, before)
	from, _, err := walk(f.data, s.first, nil)
	require.NoError(t, err)
	// One batch of three records, none of which was promised to anybody.
	var batch []byte
	for seq := uint64(6); seq <= 8; seq++ {
		batch = appendRecord(batch, seq, 5, payload(seq, 100))
	}
	require.NoError(t, j.Close())
	for n := range len(batch) {
		for _, missing := range []int{-1, 0, 100} { // also without some bytes at the front
			torn := before.clone()
			data := torn.files[s.path].data
			copy(data[from:], batch[:n])
			if missing >= 0 {
				clear(data[from+min(missing, n) : from+min(missing+30, n)])
			}
			j, err := open(torn, memDir, small)
			require.NoErrorf(t, err, "%d bytes", n)
			require.GreaterOrEqual(t, j.Synced(), uint64(5))
			require.LessOrEqual(t, j.Synced(), uint64(8))
			end := int(j.at)
			require.NoError(t, j.Close())
			require.LessOrEqual(t, written(torn.files[s.path].data, end), end+recordHeader, "only the end mark stands behind the last record")
		}
	}
}

func TestAnyPrefixReplays(t *testing.T) {
	fs := newMemFS()
	j, err := open(fs, memDir, Options{SegmentBytes: 1 << 16})
	require.NoError(t, err)
	fill(t, j, 100, 60)
	snapshot := fs.clone()
	require.NoError(t, j.Close())
	s, f := lastSegment(t, snapshot)
	at := segmentHeader
	for seq := uint64(1); seq <= 100; seq++ {
		r, ok := parseRecord(f.data[at:])
		require.True(t, ok)
		at += r.size
		prefix := snapshot.clone()
		clear(prefix.files[s.path].data[at:])
		require.Equal(t, seq, readAll(t, prefix))
	}
}
