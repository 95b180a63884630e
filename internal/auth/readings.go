package auth

import "sync"

// readings orders the readings of files that are read for two reasons: because they have changed, and on
// request. The content that was read last is the one that ends up in use, even if an earlier reading is
// applied later. Its methods may be called from any goroutine.
type readings struct {
	// mu is held during each reading, and guards the fields below.
	mu      sync.Mutex
	read    uint64 // number of readings so far
	inForce uint64 // number of the reading that is in use
	err     error  // error of the last reading
}

// prepare calls read, which reads files and returns a function that puts their content into use. prepare
// returns a function that calls it, unless a later reading is in use by then. The error is that of read; then
// only the result of failed has changed.
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

// failed returns the error of the last reading, nil if it succeeded.
func (r *readings) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
