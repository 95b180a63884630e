package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// execSelf executes this program again in the same process, even if its file has been replaced or removed.
// It returns only if that fails.
func execSelf(environ []string) error {
	keepDeathSignal()
	return fmt.Errorf("execute /proc/self/exe: %w", syscall.Exec("/proc/self/exe", os.Args, environ))
}

// rename restores the process name after a restart. The kernel calls a process that executed /proc/self/exe
// "exe", and tools such as pgrep would not find it.
func (f *former) rename() {
	if len(f.times) > 0 {
		// an error matters little: the name is only for people
		_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
	}
}

// reap collects the exit status of the former run's local Postgres, which has ended. The process is still
// its parent after the restart.
func (f *former) reap() {
	if f.postgres > 0 {
		_, _ = syscall.Wait4(f.postgres, nil, syscall.WNOHANG, nil) // fails if it is not a child of this process
	}
}
