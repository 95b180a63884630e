package auth

import (
	"syscall"
	"time"
)

// changed returns when a file's content, owner, mode or name last changed.
func changed(s *syscall.Stat_t) time.Time { return time.Unix(s.Ctimespec.Unix()) }
