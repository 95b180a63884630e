//go:build !linux

package postgres

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: on other systems only keepalives detect a dead peer.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
