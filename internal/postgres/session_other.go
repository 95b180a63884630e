//go:build !linux

package postgres

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: elsewhere the keepalives alone notice.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
