package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync calls fdatasync and repeats it when a signal interrupts it: EINTR is no failed write.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
