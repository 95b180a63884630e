package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outcry/internal/journal/durable"
)

// partialSuffix ends the name of a file that is being written.
const partialSuffix = ".partial"

// TakeFile takes a backup into the file path, which must not be there yet. Only its
// owner may read it. It has its name once it is whole and durable; until then it is
// path.partial, which a backup that is killed leaves, and the next one to the same path
// uses again. The error is that of Take, or says what could not be written.
func TakeFile(ctx context.Context, path string, o TakeOptions) (Taken, error) {
	if _, err := os.Lstat(path); err == nil {
		return Taken{}, fmt.Errorf("backup: %s exists already: nothing was written", path)
	}
	f, err := lockedFile(path + partialSuffix)
	if err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<18)
	taken, err := Take(ctx, buffered, o)
	if err != nil {
		return Taken{}, errors.Join(err, os.Remove(f.Name()))
	}
	if err := errors.Join(buffered.Flush(), durable.File(f)); err != nil {
		return Taken{}, errors.Join(fmt.Errorf("backup: write %s: %w", f.Name(), err), os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	return taken, syncDir(filepath.Dir(path))
}

// lockedFile makes an empty file that this process alone writes to.
func lockedFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, fmt.Errorf("another backup is writing to %s", path)
	}
	// Who had the lock may have given the file its name meanwhile.
	locked, err := f.Stat()
	if named, namedErr := os.Lstat(path); err == nil && (namedErr != nil || !os.SameFile(locked, named)) {
		err = fmt.Errorf("another backup has just written %s", path)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		err = f.Chmod(0o600)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	if err := durable.Dir(dir); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// writeFile makes a file durably, under its name at once or not at all.
func writeFile(path string, content []byte) error {
	f, err := lockedFile(path + partialSuffix)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer f.Close()
	if _, err = f.Write(content); err == nil {
		err = durable.File(f)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("backup: write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// Check reads a whole backup and returns what it says of itself. The error is a
// *DamageError if it is not whole, or says that it is none or cannot be read.
func Check(r io.Reader) (Header, Trailer, error) {
	b, err := NewReader(r)
	for err == nil {
		_, err = b.Next()
	}
	if b == nil || !errors.Is(err, io.EOF) {
		return Header{}, Trailer{}, err
	}
	return b.Header(), b.Trailer(), nil
}

// CheckFile is Check of a file. Errors name it.
func CheckFile(path string) (h Header, t Trailer, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, t, fmt.Errorf("backup: %w", err)
	}
	defer f.Close()
	if h, t, err = Check(f); err != nil {
		return h, t, fmt.Errorf("%s: %w", path, err)
	}
	return h, t, nil
}
