//go:build !linux

package anchors

import "io"

// WarnOfMemory does nothing: only on Linux a file system says that it is in memory.
func WarnOfMemory(string, io.Writer) {}
