package auth

import "sync"

// readings are those of files that may be read for two reasons at once: since they have
// changed, and since somebody asks for it. What was read last is put in force last,
// whichever was slower. Its methods may be called from any goroutine.
type readings struct {
	// mu is held over each reading, and guards what follows.
	mu      sync.Mutex
	read    uint64 // how many readings there were
	inForce uint64 // which of them is in force
	err     error  // of the last
}

// prepare calls read, which reads files and returns what takes over what is in them. It
// returns what calls that, unless a later reading is in force by then. After an error,
// which is that of read, only what failed returns has changed.
func (r *readings) prepare(read func() (put func(), err error)) (apply func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	put, err := read()
	r.err = err
	if err != nil {
		return nil, err
	}
	r.read++
	this := r.read
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if this > r.inForce {
			put()
			r.inForce = this
		}
	}, nil
}

// failed returns the error of the last reading, nil if it had none.
func (r *readings) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
