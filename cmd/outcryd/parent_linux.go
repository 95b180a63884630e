package main

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// parent is the process that started this one. deathSignal is the signal that this process receives when
// its parent ends, or 0 for none. The kernel keeps that setting for the first thread only, and package
// variables are initialized on that thread.
var parent, deathSignal = os.Getppid(), readDeathSignal()

func readDeathSignal() (signal int32) {
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0) // on an error signal stays 0
	return signal
}

// keepDeathSignal preserves the death signal when this thread executes a program. Without it, a restarted
// process would outlive its parent. If the parent has ended already, keepDeathSignal sends the signal at
// once.
func keepDeathSignal() {
	if deathSignal == 0 {
		return
	}
	runtime.LockOSThread()
	// cannot fail: the kernel returned this number
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(deathSignal), 0, 0, 0)
	if os.Getppid() != parent {
		_ = syscall.Kill(os.Getpid(), syscall.Signal(deathSignal))
	}
}
