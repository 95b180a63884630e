package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves size bytes of disk space for f. It returns nil if the file system does not support
// that: a full disk is then noticed by the writes.
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
