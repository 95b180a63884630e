// Package progress shows the progress of work that takes more than a second: as one rewritten line on a
// terminal, as a line every few seconds in a file or a pipe, or in a log. Shorter work shows nothing.
package progress

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// quiet is how long work must take before a terminal shows it. rewriteEvery is how often the line is rewritten after
	// that.
	quiet        = time.Second
	rewriteEvery = 250 * time.Millisecond

	// LineEvery is how often a line is written to a file, a pipe or a log.
	LineEvery = 5 * time.Second

	// columnsStandard is the width of a terminal that does not report one.
	columnsStandard = 80

	erase = "\r\x1b[K" // return to the start of the line and erase it
)

// Line shows the progress until Stop. Its methods may be called from any goroutine.
type Line struct {
	w       io.Writer
	columns int // width of the terminal, 0 if w is not one
	begun   time.Time

	stop func() // stops the ticks

	mu      sync.Mutex // guards the fields below
	text    string     // the progress; "" to show nothing
	shown   bool       // the line is on the terminal now
	shownAt time.Time  // when the progress was last shown
}

// Start begins to show the texts passed to Say on w. The caller must call Stop.
func Start(w io.Writer) *Line {
	return start(w, columnsOf(w), time.Now(), time.NewTicker(rewriteEvery).C)
}

// start is Start with the width of the terminal, 0 for none, and a clock: begun is the current time, and ticks
// delivers later times.
func start(w io.Writer, columns int, begun time.Time, ticks <-chan time.Time) *Line {
	l := &Line{w: w, columns: columns, begun: begun, shownAt: begun}
	l.stop = every(ticks, l.show)
	return l
}

// Say sets the text to show from now on. "" removes the line from the terminal until the next call.
func (l *Line) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text = text; text == "" {
		l.erase()
	}
}

// Write writes something else to the same output, such as a warning. It erases the line, which is shown again
// below the written text.
func (l *Line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	return l.w.Write(p)
}

// Stop ends the progress and removes the line from a terminal. Later calls do nothing.
func (l *Line) Stop() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
}

// erase removes the line from the terminal. Callers hold mu.
func (l *Line) erase() {
	if l.shown {
		_, _ = io.WriteString(l.w, erase)
		l.shown = false
	}
}

// show shows the text if it is due.
func (l *Line) show(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := now.Sub(l.begun)
	if l.text == "" || took < quiet || l.columns == 0 && now.Sub(l.shownAt) < LineEvery {
		return
	}
	l.shownAt = now
	text := fmt.Sprintf("%s (%s)", l.text, took.Round(time.Second))
	if l.columns == 0 {
		_, _ = io.WriteString(l.w, text+"\n")
		return
	}
	if runes := []rune(text); len(runes) >= l.columns {
		text = string(runes[:l.columns-1]) // a wrapped line could not be erased
	}
	_, _ = io.WriteString(l.w, erase+text)
	l.shown = true
}

// columnsOf returns the width of the terminal that w writes to, 0 if w is not a terminal that can erase a
// line.
func columnsOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0:
		return columnsStandard
	}
	return int(size.Col)
}

// Log logs a message at an interval, usually LineEvery, until stop is called. attrs returns the progress and
// is called from another goroutine. stop waits until the last call is done.
func Log(log *slog.Logger, often time.Duration, message string, attrs func() []any) (stop func()) {
	return logAt(time.NewTicker(often).C, log, message, attrs)
}

// logAt is Log with a channel of ticks.
func logAt(ticks <-chan time.Time, log *slog.Logger, message string, attrs func() []any) (stop func()) {
	return every(ticks, func(time.Time) { log.Info(message, attrs()...) })
}

// every calls do at each tick until stop is called. stop waits until do has returned.
func every(ticks <-chan time.Time, do func(now time.Time)) (stop func()) {
	ask, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case now := <-ticks:
				do(now)
			case <-ask:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ask)
		<-ended
	})
}
