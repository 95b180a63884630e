package journal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// memFS is a file system in memory that keeps what is synced apart from what is
// only written, counts its calls, fails on demand, fills up, and can lose power.
type memFS struct {
	mu      sync.Mutex
	files   map[string]*memFile // what processes see
	names   map[string]*memFile // what the disk has: directory entries as of the last syncDir
	calls   int                 // calls that change something
	failAt  int                 // this call and all later ones fail; 0 means none
	failing error
	fault   func(call int, op string) error // may fail one call
	bounded bool                            // the disk ends at limit
	limit   int                             // bytes of all files together

	cannotAllocate bool // allocate does nothing, as on some file systems
}

type memFile struct {
	fs    *memFS
	data  []byte       // what processes see
	safe  []byte       // what the disk has for sure
	dirty map[int]bool // sectors that a sync will write
	taken int          // bytes that allocate has set aside
	gate  chan struct{}
}

const sectorBytes = 512

var errPower = errors.New("the power is out")

func newMemFS() *memFS {
	return &memFS{files: map[string]*memFile{}, names: map[string]*memFile{}, failing: errPower}
}

// put adds a file that is on the disk.
func (m *memFS) put(path string, data []byte) *memFile {
	f := &memFile{fs: m, data: bytes.Clone(data), safe: bytes.Clone(data), dirty: map[int]bool{}}
	m.files[path], m.names[path] = f, f
	return f
}

// failFrom fails the n-th call from now on and all after it; 0 ends that.
func (m *memFS) failFrom(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failAt = 0
	if n > 0 {
		m.failAt = m.calls + n
	}
}

// failOnly asks f, for every call, whether it fails.
func (m *memFS) failOnly(f func(call int, op string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// setRoom bounds the disk to what it holds and so many bytes; below 0 it has no end.
func (m *memFS) setRoom(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bounded, m.limit = bytes >= 0, m.taken()+bytes
}

// used returns how many bytes the files take.
func (m *memFS) used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken()
}

// taken is used for callers that hold mu.
func (m *memFS) taken() (n int) {
	for _, f := range m.files {
		n += max(len(f.data), f.taken)
	}
	return n
}

// room returns how many of want more bytes the disk takes.
func (m *memFS) room(want int) int {
	if m.bounded {
		want = min(want, max(0, m.limit-m.taken()))
	}
	return want
}

// step counts a call that changes something, and fails it if it is to fail.
func (m *memFS) step(op string) error {
	m.calls++
	if m.failAt > 0 && m.calls >= m.failAt {
		return m.failing
	}
	if m.fault != nil {
		return m.fault(m.calls, op)
	}
	return nil
}

func (m *memFS) open(path string, flag int) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[path]
	switch {
	case f == nil && flag&os.O_CREATE == 0:
		return nil, os.ErrNotExist
	case f == nil:
		if err := m.step("create"); err != nil {
			return nil, err
		}
		f = &memFile{fs: m, dirty: map[int]bool{}}
		m.files[path] = f
	case flag&os.O_EXCL != 0:
		return nil, os.ErrExist
	}
	return f, nil
}

func (m *memFS) list(dir string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range m.files {
		if filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *memFS) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("rename"); err != nil {
		return err
	}
	m.files[to] = m.files[from]
	delete(m.files, from)
	return nil
}

func (m *memFS) remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[path] == nil {
		return os.ErrNotExist
	}
	if err := m.step("remove"); err != nil {
		return err
	}
	delete(m.files, path)
	return nil
}

func (m *memFS) syncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("syncDir"); err != nil {
		return err
	}
	m.names = maps.Clone(m.files)
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return bytes.NewReader(f.data).ReadAt(p, off)
}

// WriteAt writes only the front half of p where it fails, and what there is room
// for where the disk is full.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.fs.step("write")
	if err != nil {
		p = p[:len(p)/2]
	}
	if grow := int(off) + len(p) - max(len(f.data), f.taken); grow > 0 {
		if room := f.fs.room(grow); room < grow {
			p, err = p[:max(0, len(p)-(grow-room))], syscall.ENOSPC
		}
	}
	if len(p) == 0 {
		return 0, err
	}
	if grow := int(off) + len(p) - len(f.data); grow > 0 {
		f.data = append(f.data, make([]byte, grow)...)
	}
	for at := int(off) / sectorBytes; at*sectorBytes < int(off)+len(p); at++ {
		f.dirty[at] = true
	}
	return copy(f.data[off:], p), err
}

// sync makes the dirty sectors safe. One that fails leaves them clean and not
// safe, as Linux does: the next sync does not write them.
func (f *memFile) sync() error {
	f.fs.mu.Lock()
	gate := f.gate
	f.fs.mu.Unlock()
	if gate != nil {
		<-gate
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.fs.step("sync")
	if err == nil {
		f.safe = f.onDisk(func(int) bool { return true })
	}
	clear(f.dirty)
	return err
}

// onDisk returns what the disk holds if it has written the dirty sectors that
// pick picks.
func (f *memFile) onDisk(pick func(sector int) bool) []byte {
	b := make([]byte, len(f.data))
	copy(b, f.safe)
	for at := 0; at*sectorBytes < len(b); at++ { // in order, for the seed's sake
		if end := min((at+1)*sectorBytes, len(b)); f.dirty[at] && pick(at) {
			copy(b[at*sectorBytes:end], f.data[at*sectorBytes:end])
		}
	}
	return b
}

func (f *memFile) size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.data)), nil
}

// allocate sets size bytes aside, all of them or none.
func (f *memFile) allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.step("allocate"); err != nil {
		return err
	}
	if f.fs.cannotAllocate {
		return nil
	}
	if grow := int(size) - max(len(f.data), f.taken); grow > f.fs.room(grow) {
		return syscall.ENOSPC
	}
	f.taken = max(f.taken, int(size))
	return nil
}

func (f *memFile) Close() error { return nil }

// afterPowerCut returns what the disk holds when the power comes back. Each name
// is drawn by itself, as of the last directory sync or as of now, and so is each
// sector that was written and not synced.
func (m *memFS) afterPowerCut(r *rand.Rand) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	paths := maps.Clone(m.names)
	maps.Copy(paths, m.files)
	after := newMemFS()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		f := m.names[path]
		if r.IntN(2) == 0 {
			f = m.files[path]
		}
		if f != nil {
			after.put(path, f.onDisk(func(int) bool { return r.IntN(2) == 0 }))
		}
	}
	return after
}

// clone returns the file system as processes see it, all of it on the disk.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemFS()
	for path, f := range m.files {
		c.put(path, f.data)
	}
	return c
}

// payload is record seq's content: every record can be told from every other.
func payload(seq uint64, size int) []byte {
	b := fmt.Appendf(nil, "record %d ", seq)
	for i := len(b); i < size; i++ {
		b = append(b, byte(seq)+byte(i))
	}
	return b
}
