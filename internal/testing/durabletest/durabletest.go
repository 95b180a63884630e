// Package durabletest lets tests see what a program syncs, and fail it.
package durabletest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"outcry/internal/journal/durable"
)

// Sync is one sync as it was asked for.
type Sync struct {
	Path string // of the file or directory by now: it may have been renamed since it was opened
	Data bool   // fdatasync instead of fsync
}

// Watcher keeps the syncs of the whole program in their order.
type Watcher struct {
	before func(Sync) error

	mu   sync.Mutex // guards seen, and is held while before is called
	seen []Sync
}

// real is the calls of the system.
var real = durable.System

// Watch keeps all syncs until t ends, or watches again. It calls before, unless that is nil,
// ahead of each, one call at a time, and lets the sync fail with its error. A test that watches
// is not parallel to others, and watches before it begins what syncs in goroutines of its own. before may
// be called in any of them: it must not end the test at once.
func Watch(t testing.TB, before func(Sync) error) *Watcher {
	w := &Watcher{before: before}
	wrap := func(call func(*os.File) error, data bool) func(*os.File) error {
		return func(f *os.File) error {
			if err := w.note(Sync{pathOf(f), data}); err != nil {
				return err
			}
			return call(f)
		}
	}
	durable.System.Sync, durable.System.SyncData = wrap(real.Sync, false), wrap(real.SyncData, true)
	t.Cleanup(func() { durable.System = real })
	return w
}

// pathOf returns where an open file is; where the system does not say so, the path by which it was opened.
func pathOf(f *os.File) string {
	if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		return path
	}
	return filepath.Clean(f.Name())
}

// note keeps a sync, and returns the error that it fails with.
func (w *Watcher) note(s Sync) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
	if w.before == nil {
		return nil
	}
	return w.before(s)
}

// Seen returns the syncs up to now.
func (w *Watcher) Seen() []Sync {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Sync(nil), w.seen...)
}

// Paths returns what was synced up to now.
func (w *Watcher) Paths() (all []string) {
	for _, s := range w.Seen() {
		all = append(all, s.Path)
	}
	return all
}
