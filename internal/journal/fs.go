package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fileSystem is what a journal does with its directory. Tests put one in its
// place that fails, or that loses what was not synced.
type fileSystem interface {
	create(path string) (file, error) // fails where there is one
	open(path string) (file, error)
	list(dir string) ([]string, error) // base names, sorted
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

type file interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Close() error
	sync() error
	size() (int64, error)
}

// disk is the real file system.
type disk struct{}

type diskFile struct{ *os.File }

func (disk) create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
	return diskFile{f}, err
}

func (disk) open(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	return diskFile{f}, err
}

func (disk) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (disk) rename(from, to string) error { return os.Rename(from, to) }
func (disk) remove(path string) error     { return os.Remove(path) }

func (disk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f diskFile) sync() error { return datasync(f.File) }

func (f diskFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// DirLock is a lock on a directory. It ends with the process at the latest.
type DirLock struct{ f *os.File }

// Lock makes dir where it is not there, and locks it. An error says that another
// process holds it, or that the directory cannot be used.
func Lock(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("journal: %s is in use by another process", dir)
		}
		return nil, fmt.Errorf("journal: lock %s: %w", dir, err)
	}
	return &DirLock{f}, nil
}

// Unlock gives the directory free.
func (l *DirLock) Unlock() error { return l.f.Close() }
