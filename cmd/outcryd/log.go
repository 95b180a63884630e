package main

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Of lines with the same message and level repeatsMax are logged within repeatsWindow:
// a client that provokes an error again and again must not fill the disk. The next
// window's first line tells how many were suppressed.
const (
	repeatsMax    = 20
	repeatsWindow = 10 * time.Second

	// messagesMax bounds how many messages are told apart. What comes beyond shares
	// the bound of one.
	messagesMax = 256
)

// logs is where the program logs to.
type logs struct {
	*slog.Logger
	level   *slog.LevelVar // may be set at any time
	repeats *repeats
}

// newLog returns a log that people can read on a terminal and machines elsewhere.
func newLog(w io.Writer, lowest slog.Level) *logs {
	l := &logs{level: new(slog.LevelVar), repeats: newRepeats()}
	l.level.Set(lowest)
	options := &slog.HandlerOptions{Level: l.level}
	var h slog.Handler = slog.NewJSONHandler(w, options)
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			h = slog.NewTextHandler(w, options)
		}
	}
	l.Logger = slog.New(&limitedHandler{h, l.repeats})
	return l
}

// limitedHandler suppresses lines that come too often. It is a slog.Handler.
type limitedHandler struct {
	slog.Handler
	repeats *repeats
}

// Handle implements slog.Handler.
func (h *limitedHandler) Handle(ctx context.Context, r slog.Record) error {
	suppressed, ok := h.repeats.admit(message{r.Level, r.Message}, r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
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
}

// repeats counts lines. It may be used from any goroutine.
type repeats struct {
	suppressed atomic.Uint64 // lines, since the start

	mu       sync.Mutex // guards what follows
	messages map[message]*repeat
}

type repeat struct {
	since      time.Time // the window
	lines      int       // within it
	suppressed int
}

func newRepeats() *repeats { return &repeats{messages: make(map[message]*repeat)} }

// admit tells whether a line is to be logged, and if so how many were suppressed before it.
func (s *repeats) admit(m message, now time.Time) (suppressed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(m, now)
	if now.Sub(r.since) >= repeatsWindow {
		suppressed = r.suppressed
		*r = repeat{since: now}
	}
	if r.lines == repeatsMax {
		r.suppressed++
		s.suppressed.Add(1)
		return 0, false
	}
	r.lines++
	return suppressed, true
}

// find returns the count of a message.
func (s *repeats) find(m message, now time.Time) *repeat {
	if r, ok := s.messages[m]; ok {
		return r
	}
	if len(s.messages) >= messagesMax {
		maps.DeleteFunc(s.messages, func(_ message, r *repeat) bool { return r.suppressed == 0 && now.Sub(r.since) >= repeatsWindow })
	}
	if len(s.messages) >= messagesMax {
		m = message{}
		if r, ok := s.messages[m]; ok {
			return r
		}
	}
	r := &repeat{since: now}
	s.messages[m] = r
	return r
}
