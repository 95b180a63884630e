package replica

import (
	"context"
	"log/slog"
)

// notesMax bounds the lines of the log that wait; what comes on top is dropped.
const notesMax = 256

// note is a line of the log.
type note struct {
	level slog.Level
	text  string
	args  []any
}

// notebook has the lines that wait.
type notebook chan note

// note has a line logged, and does not wait for that: the log may be a file on the very disk
// that hangs.
func (n notebook) note(level slog.Level, text string, args ...any) {
	select {
	case n <- note{level, text, args}:
	default:
	}
}

// log is the goroutine that logs.
func (r *Replica) log() {
	for {
		select {
		case n := <-r.notebook:
			r.options.Log.Log(context.Background(), n.level, n.text, n.args...)
			continue
		default:
		}
		select {
		case n := <-r.notebook:
			r.options.Log.Log(context.Background(), n.level, n.text, n.args...)
		case <-r.life.Done():
			return
		}
	}
}
