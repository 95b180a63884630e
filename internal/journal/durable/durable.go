// Package durable puts bytes and names on stable storage: the few calls that every promise
// about a disk comes down to. A file is durable once its bytes are synced and then the
// directory that has its name.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// System holds the calls of the operating system below this package. Tests wrap them, to
// see what is synced and when, and to make it fail; nobody else writes to it.
var System = struct {
	Sync     func(*os.File) error // bytes and everything that is known of the file
	SyncData func(*os.File) error // bytes and what reading them takes
}{(*os.File).Sync, datasync}

// File makes the bytes of f durable, and with them its length, mode and times. An error is
// final: the kernel may have dropped what it could not write, and the next call would not
// say so.
func File(f *os.File) error { return System.Sync(f) }

// Data is File without what a reader does not need, such as the time of the last write. It
// is cheaper if the file does not grow.
func Data(f *os.File) error { return System.SyncData(f) }

// Dir makes the names in the directory dir durable: those that were made, changed and
// removed. The error names dir.
func Dir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(System.Sync(d), d.Close())
}

// MakeDir makes dir and what is missing above it, durably: a directory whose own name a
// power cut undoes takes its files along. It does nothing if dir is there. The error names
// the directory that could not be made or synced.
func MakeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MakeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return Dir(parent)
}
