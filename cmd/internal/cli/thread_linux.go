package cli

import "syscall"

// EndWithThread has a process asked to stop when the thread that starts it ends.
func EndWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
