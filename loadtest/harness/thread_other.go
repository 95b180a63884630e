//go:build !linux

package harness

import "syscall"

// endWithThread does nothing: only Linux can. A process may outlive this one when this one
// is killed.
func endWithThread(*syscall.SysProcAttr) {}
