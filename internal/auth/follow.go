package auth

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"
)

// followEvery is how often the files are checked for changes: a revoked token must end within a second.
const followEvery = 300 * time.Millisecond

// stamp identifies a state of a file. It is the zero stamp if the file does not exist.
type stamp struct {
	modified, changed time.Time
	size              int64
	inode             uint64
}

// stampsOf returns the stamps of files.
func stampsOf(paths []string) []stamp {
	all := make([]stamp, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		all[i] = stamp{modified: info.ModTime(), size: info.Size()}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			all[i].inode, all[i].changed = s.Ino, changed(s)
		}
	}
	return all
}

// follow checks the files every followEvery until ctx ends, and calls load when they have changed; seen are
// the stamps of the files when they were last read. While failed returns the error of the last reading, it
// calls load each time, because a file may have been missing and come back unchanged. It logs the same error
// once. It calls between before each check.
func follow(ctx context.Context, paths []string, seen []stamp, load, failed func() error, between func(),
	log *slog.Logger) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		between()
		now := stampsOf(paths) // before reading the files, so that a later change is noticed next time
		if slices.Equal(now, seen) && failed() == nil {
			continue
		}
		err := load()
		if err == nil {
			seen, last = now, ""
			continue
		}
		if err.Error() != last {
			last = err.Error()
			log.Error("changed files are not applied: the previous content stays in use", "error", err)
		}
	}
}
