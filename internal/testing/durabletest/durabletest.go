// Package durabletest lets tests observe the syncs of a program, and make them fail.
package durabletest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"outcry/internal/journal/durable"
)

// Sync is one sync.
type Sync struct {
	Path string // current path of the file or directory, which may have been renamed since it was opened
	Data bool   // fdatasync instead of fsync
}

// Watcher records the syncs of the whole program in order.
type Watcher struct {
	before func(Sync) error

	mu   sync.Mutex // guards seen, and is held while before is called
	seen []Sync
}

// real holds the real system calls.
var real = durable.System

// Watch records all syncs until t ends or calls Watch again. It calls before, unless it is nil, before each sync,
// one call at a time. If before returns an error, the sync fails with that error. A test that uses Watch must not
// run in parallel with others, and must call Watch before it starts goroutines that sync. before may be called in
// any of these goroutines, so it must not call FailNow.
func Watch(t testing.TB, before func(Sync) error) *Watcher {
	w := &Watcher{before: before}
	wrap := func(call func(*os.File) error, data bool) func(*os.File) error {
		return func(f *os.File) error {
			if err := w.record(Sync{pathOf(f), data}); err != nil {
				return err
			}
			return call(f)
		}
	}
	durable.System.Sync, durable.System.SyncData = wrap(real.Sync, false), wrap(real.SyncData, true)
	t.Cleanup(func() { durable.System = real })
	return w
}

// pathOf returns the current path of an open file, or the path by which it was opened if the current one is
// unknown.
func pathOf(f *os.File) string {
	if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		return path
	}
	return filepath.Clean(f.Name())
}

// record records a sync, and returns the error with which it must fail.
func (w *Watcher) record(s Sync) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
	if w.before == nil {
		return nil
	}
	return w.before(s)
}

// Seen returns the syncs so far.
func (w *Watcher) Seen() []Sync {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Sync(nil), w.seen...)
}

// Paths returns the paths of the syncs so far.
func (w *Watcher) Paths() (all []string) {
	for _, s := range w.Seen() {
		all = append(all, s.Path)
	}
	return all
}
