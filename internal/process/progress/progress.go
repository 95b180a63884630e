// Package progress shows that work which takes more than a second goes on: as one line of
// a terminal that is rewritten, as a line every few seconds in a file or a pipe, or in a
// log. What ends sooner shows nothing.
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
	// quiet is how long work goes on before a terminal shows it, and rewriteEvery how often
	// it is shown anew then.
	quiet        = time.Second
	rewriteEvery = 250 * time.Millisecond

	// LineEvery is how often there is a line in a file, a pipe or a log.
	LineEvery = 5 * time.Second

	// columnsStandard is how wide a terminal is that does not say.
	columnsStandard = 80

	erase = "\r\x1b[K" // back to the front of the line, and erase it
)

// Line says what goes on, until Stop. Its methods may be called from any goroutine.
type Line struct {
	w       io.Writer
	columns int // of the terminal, 0 if w is none
	begun   time.Time

	stop func() // the ticks

	mu    sync.Mutex // guards what follows
	text  string     // what goes on; "" for nothing to tell
	shown bool       // on the terminal
	told  time.Time  // when it was shown last
}

// Start begins to show on w what Say says. Callers call Stop.
func Start(w io.Writer) *Line {
	return start(w, columnsOf(w), time.Now(), time.NewTicker(rewriteEvery).C)
}

// start is Start on a terminal so wide, 0 for none, with a clock: begun is now, and what
// comes from ticks is the time then.
func start(w io.Writer, columns int, begun time.Time, ticks <-chan time.Time) *Line {
	l := &Line{w: w, columns: columns, begun: begun, told: begun}
	l.stop = every(ticks, l.show)
	return l
}

// Say says what goes on from now on; "" takes the line off the terminal until there is more
// to say.
func (l *Line) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text = text; text == "" {
		l.erase()
	}
}

// Write writes something else where the line is shown, such as a warning: the line makes
// way and comes again below it.
func (l *Line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	return l.w.Write(p)
}

// Stop ends it. Nothing of it is left on a terminal. Later calls do nothing.
func (l *Line) Stop() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
}

// erase takes the line off the terminal. Callers hold mu.
func (l *Line) erase() {
	if l.shown {
		_, _ = io.WriteString(l.w, erase)
		l.shown = false
	}
}

// show shows the text if it is time to.
func (l *Line) show(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := now.Sub(l.begun)
	if l.text == "" || took < quiet || l.columns == 0 && now.Sub(l.told) < LineEvery {
		return
	}
	l.told = now
	text := fmt.Sprintf("%s (%s)", l.text, took.Round(time.Second))
	if l.columns == 0 {
		_, _ = io.WriteString(l.w, text+"\n")
		return
	}
	if runes := []rune(text); len(runes) >= l.columns {
		text = string(runes[:l.columns-1]) // a line that is broken could not be erased
	}
	_, _ = io.WriteString(l.w, erase+text)
	l.shown = true
}

// columnsOf returns how wide the terminal is that w writes to, 0 if it is none that can
// erase a line.
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

// Log logs a message so often, mostly LineEvery, until stop is called, which waits for the
// last one. attrs says how far the work is; it is called from another goroutine.
func Log(log *slog.Logger, often time.Duration, message string, attrs func() []any) (stop func()) {
	return logAt(time.NewTicker(often).C, log, message, attrs)
}

// logAt is Log at each tick.
func logAt(ticks <-chan time.Time, log *slog.Logger, message string, attrs func() []any) (stop func()) {
	return every(ticks, func(time.Time) { log.Info(message, attrs()...) })
}

// every calls do at each tick until stop is called, which waits until do returns.
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
