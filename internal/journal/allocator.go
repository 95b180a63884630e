package journal

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// After a segment could not be made, the allocator tries again this often.
const allocateRetry = time.Second

// allocator makes the next segment ahead of time, in a goroutine of its own.
type allocator struct {
	fs   fileSystem
	path string // where the segment waits for its name
	size int64

	want, quit chan struct{}
	ended      chan struct{}

	// mu guards what follows; changed is signaled when either changes.
	mu      sync.Mutex
	changed *sync.Cond
	ready   file
	err     error // why the last try failed
}

// newAllocator begins to make the first segment.
func newAllocator(fs fileSystem, path string, size int64) *allocator {
	a := &allocator{fs: fs, path: path, size: size,
		want: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	a.changed = sync.NewCond(&a.mu)
	a.prepare()
	go a.run()
	return a
}

// prepare asks for a segment, where none is ready or being made.
func (a *allocator) prepare() {
	select {
	case a.want <- struct{}{}:
	default:
	}
}

func (a *allocator) run() {
	defer close(a.ended)
	for {
		select {
		case <-a.want:
		case <-a.quit:
			return
		}
		for !a.make() {
			select {
			case <-time.After(allocateRetry):
			case <-a.quit:
				return
			}
		}
	}
}

// make makes a segment, where none is ready, and tells whether there is one now.
func (a *allocator) make() bool {
	a.mu.Lock()
	ready := a.ready != nil
	a.mu.Unlock()
	if ready {
		return true
	}
	f, err := zeroFile(a.fs, a.path, a.size)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready, a.err = f, err
	a.changed.Broadcast()
	return err == nil
}

// room returns why no segment is ready, nil where one is or is being made.
func (a *allocator) room() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return fmt.Errorf("journal: no room for the next segment: %w", a.err)
	}
	return nil
}

// take hands out a segment of at least need bytes, still under a temporary name.
// It waits while one is being made, and fails where the last try failed.
func (a *allocator) take(need int64) (f file, path string, size int64, err error) {
	if need > a.size {
		path = filepath.Join(filepath.Dir(a.path), largeName)
		f, err = zeroFile(a.fs, path, need)
		return f, path, need, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.ready == nil && a.err == nil {
		a.changed.Wait()
	}
	f, a.ready = a.ready, nil
	if f == nil {
		return nil, "", 0, a.err
	}
	return f, a.path, a.size, nil
}

// stop ends the goroutine and removes the segment that nobody needs any more.
func (a *allocator) stop() {
	close(a.quit)
	<-a.ended
	if a.ready != nil {
		_ = a.ready.Close()
		_ = a.fs.remove(a.path) // the next Open removes it otherwise
	}
}
