package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// execSelf runs this program again in this process: also where its file has been replaced
// or removed since. It returns only with an error.
func execSelf(environ []string) error {
	keepDeathSignal()
	return fmt.Errorf("execute /proc/self/exe: %w", syscall.Exec("/proc/self/exe", os.Args, environ))
}

// rename gives the process the name of its program, where it has begun again: to the kernel
// it is "exe" then, and nobody would find it by its name.
func (f *former) rename() {
	if len(f.times) > 0 {
		_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0) // a help for people
	}
}

// reap takes the exit status of the former local Postgres, which has ended: the process
// that began again is its parent still.
func (f *former) reap() {
	if f.postgres > 0 {
		_, _ = syscall.Wait4(f.postgres, nil, syscall.WNOHANG, nil) // it may not be ours
	}
}
