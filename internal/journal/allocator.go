package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// After a segment could not be made, it is tried again this often.
const allocateRetry = 500 * time.Millisecond

// spareSuffix ends the names of segments that are not in use yet.
const spareSuffix = ".tmp"

// spareKeep is how long segments stay that were made for a ClaimMany and are not needed.
const spareKeep = 10 * time.Second

// spare is a segment without header and name: a file of zeros, synced.
type spare struct {
	file  // nil while it is closed: of several spares one is open
	path  string
	bytes int64
	ahead bool // made by the allocator, before it was needed
}

// allocator keeps one spare segment ready, and more while a ClaimMany needs them, in a
// goroutine of its own.
type allocator struct {
	j    *Journal
	fs   fileSystem
	dir  string
	size int64

	recheck chan struct{} // holds a value when what is due may have changed
	filled  chan struct{} // holds a value when ready may not be empty
	refused chan error    // while there is none, says why

	mu    sync.Mutex // guards ready
	ready []spare    // oldest first

	quit, ended chan struct{}
}

// newAllocator begins to make the first segment.
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
			a.rest(keep)
			continue
		}
		s, err := makeSpare(a.fs, filepath.Join(a.dir, fmt.Sprintf("next-%d%s", n, spareSuffix)), a.size)
		n++
		if err != nil && what == oneMore {
			a.j.noteAhead(err)
			a.trim()
			a.rest(allocateRetry)
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

// rest waits until something may be due; unless most is 0, for so long at the most, and
// then removes spares that nobody has needed meanwhile.
func (a *allocator) rest(most time.Duration) {
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

// push makes a spare ready to be taken. Of several, the first alone stays open.
func (a *allocator) push(s spare) {
	s.ahead = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ready) > 0 {
		_ = s.Close() // all of it is synced
		s.file = nil
	}
	a.ready = append(a.ready, s)
	wakeUp(a.filled)
}

// pop takes the oldest spare, or the newest.
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

// trim removes the spares that are not needed.
func (a *allocator) trim() {
	for a.j.dropSpare() {
		s, ok := a.pop(true)
		if !ok { // the flusher has it
			a.j.undropSpare()
			return
		}
		a.remove(s)
	}
}

// removeAll removes all spares. What cannot be removed, the next Open removes.
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

// backOff tells who asks meanwhile why there is no spare. It returns false when
// the allocator is to end.
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

// take hands out a spare. It waits until there is one; once giveUp is closed, it
// waits only for the try that is under way and returns why that failed.
func (a *allocator) take(giveUp <-chan struct{}) (spare, error) {
	var why error
	var ending <-chan struct{} // nil until one try has failed
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

// stop ends the goroutine, and removes the spares.
func (a *allocator) stop() {
	close(a.quit)
	<-a.ended
}

// zeroChunk is how much of a new segment is written and synced at once. A sync of
// all of it at the end makes the flusher's syncs wait several times as long.
const zeroChunk = 1 << 20

// makeSpare makes a file of size bytes, all zero, written and synced. What it
// could not finish it removes. The disk is asked for all of it first: a full one
// then refuses at once, instead of after it was filled up to the last byte.
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

// removeSpares removes what an earlier run had prepared.
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
