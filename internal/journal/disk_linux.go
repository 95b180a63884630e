package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate sets size bytes of the disk aside for a file. A file system that cannot
// is no error: writing then reports whether there is room.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		}
		return os.NewSyscallError("fallocate", err)
	}
}
