package target

import (
	"strings"
	"sync"
)

// tail is a writer that keeps the last max bytes. It is safe for concurrent use.
type tail struct {
	max  int
	mu   sync.Mutex
	kept []byte // guarded by mu; at most 2·max
}

// Write keeps the end of p. It returns no error.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	p = p[max(0, n-t.max):]
	if len(t.kept)+len(p) > 2*t.max {
		t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-t.max):]...)
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// String returns the bytes kept, as valid UTF-8.
func (t *tail) String() string { return t.last(t.max) }

// inError returns the last output, as a part of an error.
func (t *tail) inError() string {
	if text := t.last(logInError); text != "" {
		return "it printed: " + text
	}
	return "it printed nothing"
}

// last returns the last n bytes kept, or fewer, as valid UTF-8.
func (t *tail) last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept[max(0, len(t.kept)-n):]), "?")
}
