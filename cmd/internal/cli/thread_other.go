//go:build !linux

package cli

import "syscall"

// EndWithThread does nothing on this system: the processes that outcry starts outlive it if it is killed.
func EndWithThread(*syscall.SysProcAttr) {}
