//go:build !linux

package local

import (
	"errors"
	"os"
	"syscall"
)

// asUser returns how to run Postgres's programs: as the current user. It returns an error for root, because
// Postgres refuses to run as root.
func asUser(_, _ string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("cluster: Postgres does not run as root: start as another user, or name a database with " +
			"--database-url")
	}
	return &syscall.SysProcAttr{}, nil
}

// seenAs returns the user id under which Postgres sees this process.
func seenAs(*syscall.SysProcAttr) int { return os.Geteuid() }
