package auth

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"
)

// followEvery is how often files are looked at: well within the second in which a
// revoked token has to end.
const followEvery = 300 * time.Millisecond

// stamp tells one state of a file from another. The zero stamp is that of no file.
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

// follow calls load each time that a file differs from what it was, first from what
// it was at the time of seen, until ctx ends. While failed returns an error, which is
// that of the last reading, it calls load again and again: a file may be as it was, and
// only have been away. The error is logged once. between is called before each look.
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
		now := stampsOf(paths) // before the files are read: what changes meanwhile is seen next time
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
			log.Error("changed files are not taken, and what was read before stays in force", "error", err)
		}
	}
}
