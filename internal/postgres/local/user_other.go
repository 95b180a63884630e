//go:build !linux

package local

import (
	"errors"
	"os"
	"syscall"
)

// asUser returns how Postgres's programs are run: as ourselves, who must not be
// root, because Postgres refuses to run as root.
func asUser(_, _ string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("cluster: Postgres does not run as root: start as another user, or name a database with " +
			"--database-url")
	}
	return &syscall.SysProcAttr{}, nil
}

// seenAs returns by which number Postgres sees this process.
func seenAs(*syscall.SysProcAttr) int { return os.Geteuid() }

// endWithThread does nothing: only Linux can. A server that is killed leaves its
// Postgres running here, and the next start asks people to end it.
func endWithThread(*syscall.SysProcAttr, syscall.Signal) {}
