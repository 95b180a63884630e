//go:build !linux

package bench

import "os"

// datasync syncs a file as the journal does.
func datasync(f *os.File) error { return f.Sync() }
