package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes a file's bytes durable. It leaves out what a reader does not
// need, such as the time of the last write.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
