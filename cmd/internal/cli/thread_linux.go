package cli

import "syscall"

// EndWithThread makes the kernel send SIGTERM to a process when the thread that starts it ends.
func EndWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
