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

// isDigits reports whether a text can be the id of an account.
func IsDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// requireDir returns nil if path is a directory, the error that missing formats if there
// is none, and the reason if that cannot be known.
func RequireDir(path, missing string, args ...any) error {
	is, err := IsDir(path)
	if err == nil && !is {
		err = fmt.Errorf(missing, args...)
	}
	return err
}

// dataFlag declares where the tokens are, and returns a function that says it.
func DataFlag(f *flag.FlagSet) func() string {
	data := f.String("data", "outcry-data", "data `directory` of the exchange, also as OUTCRY_DATA")
	return func() string {
		if value := os.Getenv("OUTCRY_DATA"); value != "" && !IsGiven(f, "data") {
			return value
		}
		return *data
	}
}

// IsDir reports whether path is a directory. The error says why that cannot be known,
// which does not mean that there is none: it may be closed to this user.
func IsDir(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}
