package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// memFS is a file system in memory that keeps what is synced apart from what is
// only written, counts its calls, fails on demand, and can lose power.
type memFS struct {
	mu      sync.Mutex
	files   map[string]*memFile // what processes see
	names   map[string]*memFile // what the disk has: directory entries as of the last syncDir
	calls   int                 // writes, syncs, creates, renames, removes, directory syncs
	failAt  int                 // this call and all later ones fail; 0 means none
	failing error
	full    bool // creating fails
}

type memFile struct {
	fs   *memFS
	data []byte // what processes see
	safe []byte // what the disk has for sure
}

const sectorBytes = 512

var errPower = errors.New("the power is out")

func newMemFS() *memFS {
	return &memFS{files: map[string]*memFile{}, names: map[string]*memFile{}, failing: errPower}
}

// step counts a call that changes something, and fails it if it is to fail.
func (m *memFS) step() error {
	m.calls++
	if m.failAt > 0 && m.calls >= m.failAt {
		return m.failing
	}
	return nil
}

func (m *memFS) create(path string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return nil, err
	}
	if m.full {
		return nil, errors.New("no space left on the disk")
	}
	if m.files[path] != nil {
		return nil, os.ErrExist
	}
	m.files[path] = &memFile{fs: m}
	return m.files[path], nil
}

func (m *memFS) open(path string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.files[path]; f != nil {
		return f, nil
	}
	return nil, os.ErrNotExist
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
	if err := m.step(); err != nil {
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
	if err := m.step(); err != nil {
		return err
	}
	delete(m.files, path)
	return nil
}

func (m *memFS) syncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	m.names = map[string]*memFile{}
	for path, f := range m.files {
		m.names[path] = f
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.step(); err != nil {
		return 0, err
	}
	if grow := off + int64(len(p)) - int64(len(f.data)); grow > 0 {
		f.data = append(f.data, make([]byte, grow)...)
	}
	return copy(f.data[off:], p), nil
}

func (f *memFile) sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.step(); err != nil {
		return err
	}
	f.safe = bytes.Clone(f.data)
	return nil
}

func (f *memFile) size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *memFile) Close() error { return nil }

// afterPowerCut returns what the disk holds when the power comes back: names as
// of the last directory sync or, at random, as of now; of each sector that was
// written and not synced the old or the new content, drawn for each by itself.
func (m *memFS) afterPowerCut(r *rand.Rand) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.names
	if r.IntN(2) == 0 {
		names = m.files
	}
	after := newMemFS()
	for path, f := range names {
		data := make([]byte, max(len(f.data), len(f.safe)))
		copy(data, f.safe)
		for at := 0; at < len(f.data); at += sectorBytes {
			if end := min(at+sectorBytes, len(f.data)); r.IntN(2) == 0 {
				copy(data[at:end], f.data[at:end])
			}
		}
		after.files[path] = &memFile{fs: after, data: data, safe: bytes.Clone(data)}
	}
	for path, f := range after.files {
		after.names[path] = f
	}
	return after
}

// clone returns the file system as processes see it.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemFS()
	for path, f := range m.files {
		c.files[path] = &memFile{fs: c, data: bytes.Clone(f.data), safe: bytes.Clone(f.data)}
		c.names[path] = c.files[path]
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
