package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// RequireDir returns nil if path is a directory, and the error formatted from missing if it is not. If that
// cannot be determined, it returns the reason.
func RequireDir(path, missing string, args ...any) error {
	is, err := IsDir(path)
	if err == nil && !is {
		err = fmt.Errorf(missing, args...)
	}
	return err
}

// IsDir reports whether path is a directory. An error means that this cannot be determined, for example
// because this user may not look there.
func IsDir(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}
