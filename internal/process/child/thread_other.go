//go:build !linux

package child

import "syscall"

// EndWithThread does nothing, because only Linux supports it. A child outlives this process if this process is
// killed.
func EndWithThread(*syscall.SysProcAttr, syscall.Signal) {}
