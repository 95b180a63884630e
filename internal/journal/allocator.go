package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// After a segment could not be made, it is tried again this often.
const allocateRetry = 500 * time.Millisecond

// spareSuffix ends the names of segments that are not in use yet.
const spareSuffix = ".tmp"

// spare is a segment without header and name: a file of zeros, synced.
type spare struct {
	file
	path  string
	bytes int64
	ahead bool // made by the allocator, before it was needed
}

// allocator keeps one spare segment ready, in a goroutine of its own.
type allocator struct {
	fs   fileSystem
	dir  string
	size int64
	note func(error) // told of each segment that is ready, and why one is not

	made    chan spare // hands the spare out
	refused chan error // while there is none, says why

	quit, ended chan struct{}
}

// newAllocator begins to make the first segment.
func newAllocator(fs fileSystem, dir string, size int64, note func(error)) *allocator {
	a := &allocator{fs: fs, dir: dir, size: size, note: note, made: make(chan spare), refused: make(chan error),
		quit: make(chan struct{}), ended: make(chan struct{})}
	go a.run()
	return a
}

func (a *allocator) run() {
	defer close(a.ended)
	for n := 0; ; n++ {
		s, err := makeSpare(a.fs, filepath.Join(a.dir, fmt.Sprintf("next-%d%s", n, spareSuffix)), a.size)
		a.note(err)
		if err != nil {
			if !a.backOff(err) {
				return
			}
			continue
		}
		s.ahead = true
		select {
		case a.made <- s:
		case <-a.quit:
			_ = errors.Join(s.Close(), a.fs.remove(s.path)) // else the next Open removes it
			return
		}
	}
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
	select {
	case s := <-a.made:
		return s, nil
	case err := <-a.refused:
		select {
		case s := <-a.made:
			return s, nil
		case <-giveUp:
			return spare{}, err
		}
	}
}

// stop ends the goroutine, and removes the spare.
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
