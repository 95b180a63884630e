// Package logging is the server's log: lines that people can read on a terminal and
// machines elsewhere, whose level changes while it is used, and of which none can fill
// the disk by coming again and again. It is apart from the wiring for its bounds, which
// are tested by themselves, and for its levels, which settings and operators share.
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

// Of lines with the same message, limit and level repeatsMax are logged within
// repeatsWindow: a client that provokes trouble again and again must not fill the disk.
// A line at the end of the window tells how many were left out. Errors are always
// logged: they are the exchange's own, and the last one says why it has stopped.
const (
	repeatsMax    = 20
	repeatsWindow = 10 * time.Second

	// messagesMax bounds how many messages are told apart. The program has far fewer:
	// what varies belongs in attributes. What comes beyond shares the bound of one
	// with what else is of its level.
	messagesMax = 256
)

// leftOut is the message of the line that tells how many others were left out.
const leftOut = "lines were left out of the log"

// Log is where a program logs to. It may be used from any goroutine.
type Log struct {
	*slog.Logger
	Level   *slog.LevelVar // may be set at any time
	repeats *repeats
}

// Suppressed returns how many lines were left out since the start.
func (l *Log) Suppressed() uint64 { return l.repeats.suppressed.Load() }

// TellAll logs what was left out of every message: at the end, when no window ends any
// more.
func (l *Log) TellAll() { l.repeats.tellAll() }

// IsLevel reports whether a level is DEBUG, INFO, WARN or ERROR: with the others that
// package slog reads, such as ERROR+1, the log could lack errors. It may be called from
// any goroutine.
func IsLevel(l slog.Level) bool {
	switch l {
	case slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError:
		return true
	}
	return false
}

// New returns a log that people can read if w is a terminal, and machines if not. limitKey
// is the name of the attribute that says into which limit a client ran: lines of several
// limits are not repeats of each other.
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

// limitedHandler leaves out lines that come too often. It is a slog.Handler.
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

// message is what lines have in common that are repeats of each other.
type message struct {
	level slog.Level
	text  string
	limit string // that was run into, "" if it is about none
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
	out        slog.Handler  // which is told what was left out
	limitKey   string        // of the attribute that names a limit
	suppressed atomic.Uint64 // lines, since the start

	mu       sync.Mutex // guards what follows
	messages map[message]*repeat
}

type repeat struct {
	since   time.Time // the window
	lines   int       // within it
	leftOut int       // of which no line has told yet
}

// admit reports whether a line is to be logged.
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
		time.AfterFunc(repeatsWindow-now.Sub(r.since), func() { s.tell(m) })
	}
	r.leftOut++
	s.suppressed.Add(1)
	return false
}

// find returns the count of a message, and the message that it counts: one without
// text if there are too many.
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

// tell logs how many lines of a message were left out, if any were.
func (s *repeats) tell(m message) {
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
	_ = s.out.Handle(context.Background(), r) // a log that cannot be written is lost
}

// tellAll tells what was left out of every message: at the end, when no window ends
// any more.
func (s *repeats) tellAll() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.messages))
	s.mu.Unlock()
	for _, m := range all {
		s.tell(m)
	}
}
