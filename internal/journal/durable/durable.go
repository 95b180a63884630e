// Package durable puts file contents and file names on stable storage. A new file is durable once its
// contents are synced and then the directory that holds its name.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// System holds the system calls that this package uses. Tests replace them to observe syncs or to make
// them fail; no other code may assign to it.
var System = struct {
	Sync     func(*os.File) error // syncs contents and all metadata
	SyncData func(*os.File) error // syncs contents and the metadata that readers need
}{(*os.File).Sync, datasync}

// File makes the contents and metadata of f durable, including length, mode and times. An error is
// final: the kernel may have dropped the pages that it could not write, and a second call would
// not report that.
func File(f *os.File) error { return System.Sync(f) }

// Data makes the contents of f durable, without metadata that readers do not need, such as the
// modification time. It is cheaper than File if the file does not grow. An error is final as for File.
func Data(f *os.File) error { return System.SyncData(f) }

// Dir makes the entries of the directory dir durable: names that were created, changed or removed. The
// error names dir.
func Dir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(System.Sync(d), d.Close())
}

// MakeDir creates dir and its missing parents, and makes their names durable, so that a power cut does
// not remove a directory together with the files in it. It does nothing if dir exists. The error names
// the directory that could not be created or synced.
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
