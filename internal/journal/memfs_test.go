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

// memFS is a file system in memory. It keeps synced and unsynced data apart, counts the calls that change
// something, can fail calls, can fill up, and can simulate a power cut.
type memFS struct {
	mu      sync.Mutex
	files   map[string]*memFile // files as processes see them
	names   map[string]*memFile // directory entries on the disk, as of the last syncDir
	calls   int                 // number of calls so far that change something
	failAt  int                 // number of the first call that fails, as do all later ones; 0 for none
	failing error
	fault   func(call int, op string) error // called for each call; a non-nil result fails it
	bounded bool                            // whether limit applies
	limit   int                             // size of the disk, in bytes

	cannotAllocate bool // allocate does nothing, as on some file systems
}

type memFile struct {
	fs    *memFS
	data  []byte       // contents as processes see them
	safe  []byte       // contents that are surely on the disk
	dirty map[int]bool // sectors that the next sync writes
	taken int          // bytes reserved by allocate
	gate  chan struct{}
}

const sectorBytes = 512

var errPower = errors.New("the power is out")

func newMemFS() *memFS {
	return &memFS{files: map[string]*memFile{}, names: map[string]*memFile{}, failing: errPower}
}

// put adds a file whose contents and name are on the disk.
func (m *memFS) put(path string, data []byte) *memFile {
	f := &memFile{fs: m, data: bytes.Clone(data), safe: bytes.Clone(data), dirty: map[int]bool{}}
	m.files[path], m.names[path] = f, f
	return f
}

// failFrom fails the n-th call from now on and all later ones; 0 stops failing.
func (m *memFS) failFrom(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failAt = 0
	if n > 0 {
		m.failAt = m.calls + n
	}
}

// failOnly fails each call for which f returns an error.
func (m *memFS) failOnly(f func(call int, op string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// setRoom limits the disk to its present contents plus the given number of bytes; a negative number removes
// the limit.
func (m *memFS) setRoom(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bounded, m.limit = bytes >= 0, m.taken()+bytes
}

// used returns how many bytes of the disk the files use.
func (m *memFS) used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken()
}

// taken is used for callers that hold mu already.
func (m *memFS) taken() (n int) {
	for _, f := range m.files {
		n += max(len(f.data), f.taken)
	}
	return n
}

// room returns how many of want more bytes fit on the disk.
func (m *memFS) room(want int) int {
	if m.bounded {
		want = min(want, max(0, m.limit-m.taken()))
	}
	return want
}

// step counts a call that changes something, and returns an error if the call must fail.
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

// WriteAt writes only the first half of p if the call must fail, and only as much as fits if the disk is full.
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

// sync writes the dirty sectors to the disk. A failed sync leaves them clean but not on the disk, as Linux
// does: the next sync does not write them.
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

// onDisk returns the contents of the file on the disk if, of the dirty sectors, exactly those that pick
// selects were written.
func (f *memFile) onDisk(pick func(sector int) bool) []byte {
	b := make([]byte, len(f.data))
	copy(b, f.safe)
	for at := 0; at*sectorBytes < len(b); at++ { // in order, so that a seed gives the same result
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

// allocate reserves size bytes, either all of them or none.
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

// afterPowerCut returns the file system after a power cut. For each name, r decides whether it is as of
// the last directory sync or as of now; for each unsynced sector, r decides whether it was written.
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

// clone returns a copy of the file system as processes see it, with everything on the disk.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemFS()
	for path, f := range m.files {
		c.put(path, f.data)
	}
	return c
}

// payload returns the content of record seq, which differs between records.
func payload(seq uint64, size int) []byte {
	b := fmt.Appendf(nil, "record %d ", seq)
	for i := len(b); i < size; i++ {
		b = append(b, byte(seq)+byte(i))
	}
	return b
}
