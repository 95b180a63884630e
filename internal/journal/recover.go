package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// recovered is what Open finds in a directory.
type recovered struct {
	id       [16]byte
	segments []segment
	end      int64  // where the next record goes in the last segment
	size     int64  // of the last segment
	next     uint64 // seq of the next record
}

// Exists tells whether dir holds a journal. A directory that is not there holds none.
func Exists(dir string) (bool, error) {
	all, err := segments(disk{}, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("journal: %w", err)
	}
	return len(all) > 0, nil
}

// Scan calls f for every record of the journal in dir, oldest first, and stops at
// f's first error, which it returns. It locks nothing and changes nothing, so
// that a journal can be looked at while it is in use; it ends where a torn or
// unwritten record is. Damage before a valid record is a *DamageError. The record
// is valid until f returns.
func Scan(dir string, f func(seq uint64, payload []byte) error) error {
	_, err := scan(disk{}, dir, func(_ segment, r record) error { return f(r.seq, r.payload) }, nil)
	return err
}

// scan reads all segments, proves that they belong together, and calls f, which
// may be nil, for every record. cut, which may be nil, is called with the bytes
// of the last segment that follow the last record.
func scan(fs fileSystem, dir string, f func(segment, record) error, cut func(s segment, end int, b []byte) error) (*recovered, error) {
	all, err := segments(fs, dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	r := &recovered{segments: all}
	var b []byte
	for i, s := range all {
		if b, err = readSegment(fs, s, b); err != nil {
			return nil, fmt.Errorf("journal: read %s: %w", s.path, err)
		}
		id, err := parseHeader(s, b)
		switch {
		case err != nil:
			return nil, err
		case i > 0 && id != r.id:
			return nil, &DamageError{s.path, 16, "it belongs to another journal than the segments before it"}
		case i > 0 && s.first != r.next:
			return nil, &DamageError{all[i-1].path, r.end, fmt.Sprintf("it ends before record %d, and the next segment begins at record %d", r.next, s.first)}
		}
		end, next, err := walk(b, s.first, func(rec record) error {
			if f == nil {
				return nil
			}
			return f(s, rec)
		})
		if err != nil {
			return nil, err
		}
		r.id, r.end, r.next, r.size = id, int64(end), next, int64(len(b))
		if i < len(all)-1 && all[i+1].first == next {
			continue
		}
		if err := proveTorn(s, b, end, next); err != nil {
			return nil, err
		}
		if i == len(all)-1 && cut != nil {
			if err := cut(s, end, b); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// recoverDir reads what is in the directory and cuts a torn tail.
func recoverDir(fs fileSystem, dir string) (*recovered, error) {
	for _, name := range []string{preparedName, largeName} {
		if err := fs.remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	return scan(fs, dir, nil, func(s segment, end int, b []byte) error {
		tail := written(b, end) - end
		if tail == 0 {
			return nil
		}
		f, err := fs.open(s.path)
		if err != nil {
			return fmt.Errorf("journal: cut %s: %w", s.path, err)
		}
		_, err = f.WriteAt(make([]byte, tail), int64(end))
		if err = errors.Join(err, f.sync(), f.Close()); err != nil {
			return fmt.Errorf("journal: cut %s: %w", s.path, err)
		}
		return nil
	})
}

// SetAside moves all segments of dir into its new subfolder, so that a journal
// can begin anew there. It deletes nothing. The journal must not be open.
func SetAside(dir, subfolder string) error {
	all, err := segments(disk{}, dir)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	aside := filepath.Join(dir, subfolder)
	if err := os.Mkdir(aside, 0o750); err != nil {
		return fmt.Errorf("journal: set aside: %w", err)
	}
	for _, s := range all {
		if err := os.Rename(s.path, filepath.Join(aside, filepath.Base(s.path))); err != nil {
			return fmt.Errorf("journal: set aside: %w", err)
		}
	}
	return errors.Join(disk{}.syncDir(aside), disk{}.syncDir(dir))
}

// newID draws the id of a new journal.
func newID() (id [16]byte) {
	rand.Read(id[:]) // never fails
	return id
}

// zeroChunk is how much of a new segment is written at once.
const zeroChunk = 1 << 20

// zeroFile makes a file of size bytes, all zero, written and synced.
func zeroFile(fs fileSystem, path string, size int64) (f file, err error) {
	f, err = fs.create(path)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, min(size, zeroChunk))
	for at := int64(0); at < size && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
	}
	if err == nil {
		err = f.sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fs.remove(path))
	}
	return f, nil
}
