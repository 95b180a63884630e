//go:build !linux

package harness

import "syscall"

// endWithThread does nothing, since only Linux supports it. A process may outlive this one if this one is
// killed.
func endWithThread(*syscall.SysProcAttr) {}

// ownNetwork does nothing, since only Linux has network namespaces. ip(8) then fails.
func ownNetwork(*syscall.SysProcAttr) {}

// FirstProcessors returns "": only Linux has taskset.
func FirstProcessors(int) string { return "" }
