package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// allocateRetry is the delay before another attempt to make a segment or to open a file.
const allocateRetry = 500 * time.Millisecond

// spareSuffix is the file name extension of spares.
const spareSuffix = ".tmp"

// spareKeep is how long surplus spares, made for a ClaimMany, are kept before they are removed.
const spareKeep = 10 * time.Second

// spare is a file for a future segment: all zeros, synced, still without a header and segment name.
type spare struct {
	file  // nil while the file is closed; only the oldest of several spares is kept open
	path  string
	bytes int64
	ahead bool // made by the allocator in advance
}

// allocator keeps one spare ready, and more while a ClaimMany needs them. It runs in its own goroutine.
type allocator struct {
	j    *Journal
	fs   fileSystem
	dir  string
	size int64

	recheck chan struct{} // holds a value when the result of due may have changed
	filled  chan struct{} // holds a value when ready may contain a spare
	refused chan error    // yields the reason while no spare can be made

	mu    sync.Mutex // guards ready
	ready []spare    // oldest first

	quit, ended chan struct{}
}

// newAllocator returns a running allocator, which begins to make the first spare.
func newAllocator(j *Journal) *allocator {
	a := &allocator{j: j, fs: j.fs, dir: j.dir, size: j.options.SegmentBytes, recheck: make(chan struct{}, 1),
		filled: make(chan struct{}, 1), refused: make(chan error), quit: make(chan struct{}), ended: make(chan struct{})}
	go a.run()
	return a
}

func (a *allocator) run() {
	defer close(a.ended)
	for n := 0; ; {
		select {
		case <-a.quit:
			a.removeAll()
			return
		default:
		}
		what := a.j.due()
		if what == nothing {
			keep := time.Duration(0)
			if a.j.surplus() {
				keep = spareKeep
			}
			a.waitForWork(keep)
			continue
		}
		s, err := makeSpare(a.fs, filepath.Join(a.dir, fmt.Sprintf("next-%d%s", n, spareSuffix)), a.size)
		n++
		if err != nil && what == oneMore {
			a.j.failAhead(err)
			a.trim()
			a.waitForWork(allocateRetry)
			continue
		}
		a.j.madeSpare(err)
		if err == nil {
			a.push(s)
		} else if !a.backOff(err) {
			a.removeAll()
			return
		}
	}
}

// waitForWork waits until the result of due may have changed. If most is not 0, it waits no longer than most
// and then removes surplus spares.
func (a *allocator) waitForWork(most time.Duration) {
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-a.recheck:
	case <-a.quit:
	case <-over:
		a.trim()
	}
}

// push adds a spare to ready. If there are several, only the first one stays open.
func (a *allocator) push(s spare) {
	s.ahead = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ready) > 0 {
		_ = s.Close() // an error does not matter: the file is synced
		s.file = nil
	}
	a.ready = append(a.ready, s)
	wakeUp(a.filled)
}

// pop removes and returns the newest spare if newest is set, else the oldest. ok is false if there is
// no spare.
func (a *allocator) pop(newest bool) (s spare, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.ready)
	if n == 0 {
		return s, false
	}
	if newest {
		s, a.ready = a.ready[n-1], a.ready[:n-1]
		return s, true
	}
	s, a.ready = a.ready[0], a.ready[1:]
	if n > 1 {
		wakeUp(a.filled)
	}
	return s, true
}

// trim removes the surplus spares.
func (a *allocator) trim() {
	for a.j.dropSpare() {
		s, ok := a.pop(true)
		if !ok { // the flusher has just taken the last spare
			a.j.undropSpare()
			return
		}
		a.remove(s)
	}
}

// removeAll removes all spares. The next Open removes those that cannot be removed now.
func (a *allocator) removeAll() {
	for s, ok := a.pop(true); ok; s, ok = a.pop(true) {
		a.remove(s)
	}
}

func (a *allocator) remove(s spare) {
	if s.file != nil {
		_ = s.Close()
	}
	_ = a.fs.remove(s.path)
}

// backOff waits for allocateRetry and passes err to calls of take during that time. It returns false
// if the allocator has to stop.
func (a *allocator) backOff(err error) bool {
	again := time.NewTimer(allocateRetry)
	defer again.Stop()
	for {
		select {
		case a.refused <- err:
		case <-again.C:
			return true
		case <-a.quit:
			return false
		}
	}
}

// next returns the oldest spare and waits until there is one. Once giveUp is closed, it returns the error of the last
// failed attempt, if there was one, instead of waiting for another.
func (a *allocator) next(giveUp <-chan struct{}) (spare, error) {
	var why error
	var ending <-chan struct{} // giveUp once an attempt has failed; nil before that
	refused := a.refused
	for {
		if s, ok := a.pop(false); ok {
			return s, nil
		}
		select {
		case <-a.filled:
		case why = <-refused:
			refused, ending = nil, giveUp
		case <-ending:
			return spare{}, why
		}
	}
}

// stop ends the allocator's goroutine and removes the spares.
func (a *allocator) stop() {
	close(a.quit)
	<-a.ended
}

// zeroChunk is how many bytes of a new segment are written and synced at once. A single sync of the
// whole segment would delay the flusher's syncs several times as long.
const zeroChunk = 1 << 20

// makeSpare makes a file of size zero bytes and syncs it. If it fails, it removes the file. It
// allocates the whole file first, so that a full disk is noticed at once and not only after it was
// filled up to the last byte.
func makeSpare(fs fileSystem, path string, size int64) (spare, error) {
	f, err := fs.open(path, createFlag)
	if err != nil {
		return spare{}, err
	}
	err = f.allocate(size)
	zeros := make([]byte, min(size, zeroChunk))
	for at := int64(0); at < size && err == nil; at += int64(len(zeros)) {
		if _, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err == nil {
			err = f.sync()
		}
	}
	if err != nil {
		return spare{}, errors.Join(err, f.Close(), fs.remove(path))
	}
	return spare{file: f, path: path, bytes: size}, nil
}

// removeSpares removes the spares that an earlier process left in dir.
func removeSpares(fs fileSystem, dir string) error {
	left, err := fs.list(dir)
	for _, name := range left {
		if filepath.Ext(name) != spareSuffix {
			continue
		}
		if gone := fs.remove(filepath.Join(dir, name)); !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
