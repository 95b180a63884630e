package harness

import "syscall"

// endWithThread has a process killed when the thread that starts it ends.
func endWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// ownNetwork has a process begin with a network of its own, and mounts that others do not
// see.
func ownNetwork(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
}
