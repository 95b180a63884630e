package main

import (
	"context"
	"errors"
	"time"

	"outcry/internal/journal"
)

// lockWait is how long a start waits for the previous process to release the data directory: a killed
// process may still be ending. lockPoll is the time between two attempts to lock.
const (
	lockWait = 5 * time.Second
	lockPoll = 20 * time.Millisecond
)

// lockData locks the data directory. The error is that of journal.Lock, or ctx's.
func (s *server) lockData(ctx context.Context) (*journal.DirLock, error) {
	lock, err := journal.Lock(s.config.Data)
	if !errors.Is(err, journal.ErrInUse) {
		return lock, err
	}
	s.log.Warn("another process is using the data directory; waiting for it to end", "data", s.config.Data,
		"at_most", lockWait.String())
	for end := time.Now().Add(lockWait); errors.Is(err, journal.ErrInUse) && time.Now().Before(end); {
		select {
		case <-time.After(lockPoll):
			lock, err = journal.Lock(s.config.Data)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return lock, err
}
