//go:build !linux

package durable

import "os"

// datasync syncs everything: only some systems can do less.
func datasync(f *os.File) error { return f.Sync() }
