package cli

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// IsDigits reports whether a text consists of one or more digits, as an account's id does.
func IsDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// RequireDir returns nil if path is a directory, and the error formatted from missing if it is not. If that
// cannot be determined, it returns the reason.
func RequireDir(path, missing string, args ...any) error {
	is, err := IsDir(path)
	if err == nil && !is {
		err = fmt.Errorf(missing, args...)
	}
	return err
}

// DataFlag declares the flag --data, and returns a function for its value, which OUTCRY_DATA replaces if the
// flag is not given.
func DataFlag(f *flag.FlagSet) func() string {
	data := f.String("data", "outcry-data", "data `directory` of the exchange, also as OUTCRY_DATA")
	return func() string {
		if value := os.Getenv("OUTCRY_DATA"); value != "" && !IsGiven(f, "data") {
			return value
		}
		return *data
	}
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
