package replica

import (
	"context"
	"log/slog"
)

// notesMax limits the log lines that wait to be written; further lines are dropped.
const notesMax = 256

// note is one log line.
type note struct {
	level slog.Level
	text  string
	args  []any
}

// notebook holds log lines that wait to be written.
type notebook chan note

// note queues a log line. It never waits, since the log may be a file on a disk that hangs.
func (n notebook) note(level slog.Level, text string, args ...any) {
	select {
	case n <- note{level, text, args}:
	default:
	}
}

// log is the goroutine that writes log lines.
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
