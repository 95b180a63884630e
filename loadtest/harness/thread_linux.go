package harness

import "syscall"

// endWithThread has a process killed when the thread that starts it ends.
func endWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// ownNetwork has a process begin in a new network namespace.
func ownNetwork(attr *syscall.SysProcAttr) { attr.Cloneflags = syscall.CLONE_NEWNET }
