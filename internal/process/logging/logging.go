// Package logging is the server's log, whose level can be changed at run time and whose repeated lines cannot
// fill the disk. Lines are readable on a terminal and machine-readable elsewhere. The package is separate
// from the wiring so that its bounds can be tested alone, and because settings and operators share its
// levels.
package logging

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Of lines with the same message, limit and level, at most repeatsMax are logged within repeatsWindow, so that a
// client that repeatedly causes log lines cannot fill the disk. A line at the end of the window says how many were
// left out. Errors are always logged: they are the exchange's own, and the last one says why it has stopped.
const (
	repeatsMax    = 20
	repeatsWindow = 10 * time.Second

	// messagesMax bounds how many messages are counted separately. The program has far fewer, because varying text
	// belongs in attributes. All other messages of the same level share one count.
	messagesMax = 256
)

// leftOut is the message of the line that says how many lines were left out.
const leftOut = "log lines were suppressed"

// Log is the program's log. It may be used from any goroutine.
type Log struct {
	*slog.Logger
	Level   *slog.LevelVar // may be set at any time
	repeats *repeats
}

// Suppressed returns how many lines have been suppressed since the start.
func (l *Log) Suppressed() uint64 { return l.repeats.suppressed.Load() }

// TellAll logs how many lines were left out of each message, without waiting for the end of the window. Call
// it when the program ends.
func (l *Log) TellAll() { l.repeats.reportAll() }

// IsLevel reports whether a level is DEBUG, INFO, WARN or ERROR. Package slog also accepts others, such as
// ERROR+1, with which errors would not be logged. It may be called from any goroutine.
func IsLevel(l slog.Level) bool {
	switch l {
	case slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError:
		return true
	}
	return false
}

// New returns a log to w: readable for people if w is a terminal, otherwise JSON. limitKey is the name of the
// attribute that says which limit a client ran into; lines with different limits do not count as repeats of
// each other.
func New(w io.Writer, lowest slog.Level, limitKey string) *Log {
	level := new(slog.LevelVar)
	level.Set(lowest)
	options := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(w, options)
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			h = slog.NewTextHandler(w, options)
		}
	}
	r := &repeats{out: h, limitKey: limitKey, messages: make(map[message]*repeat)}
	return &Log{Logger: slog.New(&limitedHandler{h, r}), Level: level, repeats: r}
}

// limitedHandler is a slog.Handler that leaves out repeated lines.
type limitedHandler struct {
	slog.Handler
	repeats *repeats
}

// Handle implements slog.Handler.
func (h *limitedHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError && !h.repeats.admit(h.repeats.messageOf(&r), time.Now()) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *limitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitedHandler{h.Handler.WithAttrs(attrs), h.repeats}
}

// WithGroup implements slog.Handler.
func (h *limitedHandler) WithGroup(name string) slog.Handler {
	return &limitedHandler{h.Handler.WithGroup(name), h.repeats}
}

// message identifies lines that count as repeats of each other.
type message struct {
	level slog.Level
	text  string
	limit string // the limit that a client ran into, "" if none
}

func (s *repeats) messageOf(r *slog.Record) message {
	m := message{level: r.Level, text: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == s.limitKey {
			m.limit = a.Value.String()
		}
		return m.limit == ""
	})
	return m
}

// repeats counts lines. It may be used from any goroutine.
type repeats struct {
	out        slog.Handler  // logs how many lines were left out
	limitKey   string        // name of the attribute with a limit
	suppressed atomic.Uint64 // lines left out since the start

	mu       sync.Mutex // guards the fields below
	messages map[message]*repeat
}

type repeat struct {
	since   time.Time // start of the window
	lines   int       // lines in the window
	leftOut int       // lines left out that no line has reported yet
}

// admit reports whether a line should be logged.
func (s *repeats) admit(m message, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, r := s.find(m, now)
	if now.Sub(r.since) >= repeatsWindow {
		r.since, r.lines = now, 0
	}
	if r.lines < repeatsMax {
		r.lines++
		return true
	}
	if r.leftOut == 0 {
		time.AfterFunc(repeatsWindow-now.Sub(r.since), func() { s.report(m) })
	}
	r.leftOut++
	s.suppressed.Add(1)
	return false
}

// find returns the count of a message and the key under which it is kept, which has no text if there are too many
// messages.
func (s *repeats) find(m message, now time.Time) (message, *repeat) {
	if r, ok := s.messages[m]; ok {
		return m, r
	}
	if len(s.messages) >= messagesMax {
		maps.DeleteFunc(s.messages, func(_ message, r *repeat) bool {
			return r.leftOut == 0 && now.Sub(r.since) >= repeatsWindow
		})
	}
	if len(s.messages) >= messagesMax {
		m = message{level: m.level}
		if r, ok := s.messages[m]; ok {
			return m, r
		}
	}
	r := &repeat{since: now}
	s.messages[m] = r
	return m, r
}

// report logs how many lines of a message were left out, if any.
func (s *repeats) report(m message) {
	s.mu.Lock()
	n := 0
	if r, ok := s.messages[m]; ok {
		n, r.leftOut = r.leftOut, 0
	}
	s.mu.Unlock()
	if n == 0 || !s.out.Enabled(context.Background(), m.level) {
		return
	}
	r := slog.NewRecord(time.Now(), m.level, leftOut, 0)
	r.AddAttrs(slog.Int("suppressed", n))
	if m.text != "" {
		r.AddAttrs(slog.String("message", m.text))
	}
	if m.limit != "" {
		r.AddAttrs(slog.String(s.limitKey, m.limit))
	}
	_ = s.out.Handle(context.Background(), r) // a line that cannot be written is lost
}

// reportAll logs how many lines of each message were left out.
func (s *repeats) reportAll() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.messages))
	s.mu.Unlock()
	for _, m := range all {
		s.report(m)
	}
}
