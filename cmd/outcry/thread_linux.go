package main

import "syscall"

// endWithThread has a process asked to stop when the thread that starts it ends.
func endWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
