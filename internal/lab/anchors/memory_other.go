//go:build !linux

package anchors

import "io"

// WarnOfMemory does nothing: only on Linux does a file system report that it is in memory.
func WarnOfMemory(string, io.Writer) {}
