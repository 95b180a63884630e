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

// partialSuffix is the ending of a file that is being written.
const partialSuffix = ".partial"

// TakeFile takes a backup into a new file. Only the owner may read it. While it is being written, the file is
// named path.partial; it gets its name once it is complete and durable. A killed backup leaves the partial
// file, which the next one to the same path overwrites. The error is that of Take, or says what could not be
// written.
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

// lockedFile opens an empty file for writing and locks it against other backups. It makes the file if
// necessary.
func lockedFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, fmt.Errorf("another backup is writing to %s", path)
	}
	// The previous holder of the lock may have renamed the file after it was opened here.
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

// writeFile writes a file atomically and syncs it.
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

// Check reads a whole backup and returns its header and trailer. The error is a *DamageError if the backup is damaged
// or incomplete; otherwise it says that the file is not a backup, or is r's.
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

// CheckFile checks the backup in a file, as Check does. Errors name the file.
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
