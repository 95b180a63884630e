package settings

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Prepare applies settings in two steps, so that either all parts change or none. It does everything that can
// fail, such as reading a certificate, and returns a function that puts the result into use. After an error
// nothing has changed.
type Prepare func(c *Config) (apply func(), err error)

// Reloads applies changed settings to a running server. The zero value is ready to use. Its methods may be
// called from any goroutine.
type Reloads struct {
	last atomic.Pointer[Config] // the settings last read; nil before the first reload

	// mu guards the fields below.
	mu       sync.Mutex
	prepares []Prepare
	parts    []Part             // parts that are registered
	running  map[string]setting // the settings in use
}

// On registers a function that applies settings, and the parts whose settings it applies. Every reload calls
// prepare, even if none of these settings has changed, because files that they name may have changed.
func (r *Reloads) On(prepare Prepare, parts ...Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepares = append(r.prepares, prepare)
	r.parts = append(r.parts, parts...)
}

// Last returns the settings that the last reload has read, nil before the first. A changed setting without a
// registered part is in them, but not in use.
func (r *Reloads) Last() *Config { return r.last.Load() }

// Reload reads all settings again from the same sources as start, and applies those that can change; after an
// error it has changed nothing. It returns a text for each setting that has changed, and the flags that
// differ but need a restart.
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
