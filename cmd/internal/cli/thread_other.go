//go:build !linux

package cli

import "syscall"

// EndWithThread does nothing here: nodes outlive an outcry that is killed.
func EndWithThread(*syscall.SysProcAttr) {}
