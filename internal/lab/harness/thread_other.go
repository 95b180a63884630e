//go:build !linux

package harness

import "syscall"

// endWithThread does nothing: only Linux can. A process may outlive this one when this one
// is killed.
func endWithThread(*syscall.SysProcAttr) {}

// ownNetwork does nothing: only Linux has such networks, and ip(8) then fails.
func ownNetwork(*syscall.SysProcAttr) {}

// FirstProcessors returns "": only Linux has taskset.
func FirstProcessors(int) string { return "" }
