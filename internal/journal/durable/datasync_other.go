//go:build !linux

package durable

import "os"

// datasync syncs all of f, as not every system has a cheaper call.
func datasync(f *os.File) error { return f.Sync() }
