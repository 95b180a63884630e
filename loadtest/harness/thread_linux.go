package harness

import "syscall"

// endWithThread has a process killed when the thread that starts it ends.
func endWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
