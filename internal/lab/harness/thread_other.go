//go:build !linux

package harness

import "syscall"

// ownNetwork does nothing, since only Linux has network namespaces. ip(8) then fails.
func ownNetwork(*syscall.SysProcAttr) {}

// FirstProcessors returns "": only Linux has taskset.
func FirstProcessors(int) string { return "" }
