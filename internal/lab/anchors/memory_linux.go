package anchors

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// WarnOfMemory prints a warning if dir is on a memory file system.
func WarnOfMemory(dir string, out io.Writer) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) == nil && (s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC) {
		fmt.Fprintf(out, "WARNING: %s is in memory: no sync costs anything there. Name a directory on a disk with -dir.\n",
			dir)
	}
}
