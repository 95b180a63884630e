package main

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// parent is who has started this process, and deathSignal what the process gets when that
// ends, 0 for nothing. The kernel keeps the signal for the first thread alone, on which
// variables like these get their values.
var parent, deathSignal = os.Getppid(), readDeathSignal()

func readDeathSignal() (signal int32) {
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0) // 0 then
	return signal
}

// keepDeathSignal has the process that this thread is about to execute get the signal as well:
// else one that began again would outlive who has started it. It gets it at once if that has
// ended meanwhile.
func keepDeathSignal() {
	if deathSignal == 0 {
		return
	}
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(deathSignal), 0, 0, 0) // a number that the kernel gave
	if os.Getppid() != parent {
		_ = syscall.Kill(os.Getpid(), syscall.Signal(deathSignal))
	}
}
