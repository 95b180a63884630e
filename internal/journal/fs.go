package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outcry/internal/journal/durable"
)

// fileSystem has the operations that a journal performs on its directory. Tests replace it by one that
// fails, or that loses what was not synced.
type fileSystem interface {
	open(path string, flag int) (file, error) // flag as in os.OpenFile
	list(dir string) ([]string, error)        // base names of the files, sorted
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	sync() error
	size() (int64, error)
	allocate(size int64) error // reserves size bytes of disk space if the file system supports it
}

const createFlag = os.O_RDWR | os.O_CREATE | os.O_EXCL

// disk is the fileSystem of the operating system.
type disk struct{}

type diskFile struct{ *os.File }

func (disk) open(path string, flag int) (file, error) {
	f, err := os.OpenFile(path, flag, 0o640)
	return diskFile{f}, err
}

func (disk) list(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (disk) rename(from, to string) error { return os.Rename(from, to) }
func (disk) remove(path string) error     { return os.Remove(path) }

func (disk) syncDir(dir string) error { return durable.Dir(dir) }

func (f diskFile) sync() error               { return durable.Data(f.File) }
func (f diskFile) allocate(size int64) error { return allocate(f.File, size) }

func (f diskFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// DirLock is a lock on a directory. The operating system releases it when the process ends.
type DirLock struct{ f *os.File }

// ErrInUse says that another process holds the lock on a directory. Lock wraps it.
var ErrInUse = errors.New("is in use by another process")

// Lock creates dir if it does not exist, and locks it exclusively. It does not wait. The error names
// dir; it wraps ErrInUse, or says why dir cannot be used.
func Lock(dir string) (*DirLock, error) {
	if err := durable.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("journal: make %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("journal: lock %s: %w", dir, err)
	}
	return lock(dir, f, unix.LOCK_EX)
}

// LockToRead takes a shared lock on a directory that is only read. It works on a file system that is
// mounted read-only, and excludes Lock but not other readers. If dir has no lock file, LockToRead makes
// none, and the returned lock excludes no one. The errors are those of Lock.
func LockToRead(dir string) (*DirLock, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return &DirLock{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: lock %s: %w", dir, err)
	}
	return lock(dir, f, unix.LOCK_SH) // NFS refuses LOCK_EX for a file opened read-only
}

// lockName is the name of the lock file in a directory.
const lockName = "LOCK"

// lock locks the lock file f of dir; how is LOCK_SH or LOCK_EX. It closes f on failure.
func lock(dir string, f *os.File, how int) (*DirLock, error) {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case err == nil:
		return &DirLock{f}, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("journal: %s %w", dir, ErrInUse)
	default:
		err = fmt.Errorf("journal: lock %s: %w", dir, err)
	}
	return nil, errors.Join(err, f.Close())
}

// Unlock releases the lock. It unlocks explicitly, because closing the file is not enough: a child
// process that is just being started holds a copy of the descriptor until it calls exec. The error is
// that of unlocking or closing the file.
func (l *DirLock) Unlock() error {
	if l.f == nil {
		return nil
	}
	return errors.Join(unix.Flock(int(l.f.Fd()), unix.LOCK_UN), l.f.Close())
}
