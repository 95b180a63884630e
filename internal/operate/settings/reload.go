package settings

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Prepare takes over settings in two steps, so that all parts change or none. It makes
// ready what can fail, such as reading a certificate, and returns what puts that in
// force. An error says why it cannot be, and then nothing has changed.
type Prepare func(c *Config) (apply func(), err error)

// Reloads are the settings of a running server that can change. The zero value has read
// none. Its methods may be called from any goroutine.
type Reloads struct {
	last atomic.Pointer[Config] // as read last; nil before the first reload

	// mu guards what follows.
	mu       sync.Mutex
	prepares []Prepare
	parts    []Part             // that are there
	running  map[string]setting // what is in force
}

// On registers what takes over settings, and the parts whose settings it takes over:
// every reload calls prepare, whether these have changed or not, since files that they
// name may have.
func (r *Reloads) On(prepare Prepare, parts ...Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepares = append(r.prepares, prepare)
	r.parts = append(r.parts, parts...)
}

// Last returns the settings as a reload read them last, nil before the first. Of these
// only the settings of parts have changed since the start.
func (r *Reloads) Last() *Config { return r.last.Load() }

// Reload reads all settings again, as start was read, and takes over what can change, or
// nothing if it returns an error. It returns what is in force now and was not, a text for
// people each, and the flags that differ and are not in force.
func (r *Reloads) Reload(start *Config) (changed, restart []string, err error) {
	c, err := Parse(start.args, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var applies []func()
	for _, prepare := range r.prepares {
		apply, err := prepare(c)
		if err != nil {
			return nil, nil, err
		}
		applies = append(applies, apply)
	}
	for _, apply := range applies {
		apply()
	}
	r.last.Store(c)
	if r.running == nil {
		r.running = maps.Clone(start.settings)
	}
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		was, is := r.running[name], c.settings[name]
		switch part := rowOf(name).reload; {
		case was.value == is.value:
		case part == Process || slices.Contains(r.parts, part):
			changed = append(changed, fmt.Sprintf("%s: %s, was %s", name, shown(name, is.value), shown(name, was.value)))
			r.running[name] = is
		default:
			restart = append(restart, name)
		}
	}
	return changed, restart, nil
}
