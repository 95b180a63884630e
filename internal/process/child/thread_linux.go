package child

import "syscall"

// EndWithThread makes the kernel send s to a process when the thread that starts it ends, at the latest when
// this process ends for any reason.
func EndWithThread(attr *syscall.SysProcAttr, s syscall.Signal) { attr.Pdeathsig = s }
