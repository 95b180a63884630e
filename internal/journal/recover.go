package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// recovered has the results of scan for a directory.
type recovered struct {
	reads    uint32 // the newest version that the caller reads
	id       [16]byte
	segments []segment
	next     uint64 // seq of the next record; 0 if there is no segment
	version  uint32 // version of the last segment
	batch    int    // offset of the last batch in the last segment
	durable  uint64 // seq that the records of that batch carry as durable
	bytes    []byte // contents of the last segment
}

// Exists reports whether dir holds a journal. It returns false if dir does not exist. The error says why
// dir cannot be read.
func Exists(dir string) (bool, error) {
	all, err := segments(disk{}, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("journal: %w", err)
	}
	return len(all) > 0, nil
}

// Scan calls f for every record of the journal in dir, oldest first. It stops at the first error of f
// and returns that. Version is the newest version that the caller reads. The payload is valid until f
// returns. Scan locks and changes nothing and may run while the journal is in use. It ends without an
// error at the first record that is torn or unwritten. Damage before a valid record is a *DamageError,
// a newer version a *VersionError; other errors say which file could not be read.
func Scan(dir string, version uint32, f func(seq uint64, payload []byte) error) error {
	_, err := scan(disk{}, dir, version, func(r record) error { return f(r.seq, r.payload) })
	return err
}

// CheckVersion returns a *VersionError if any segment of the journal in dir has a version above the
// given one. It reads only headers and changes nothing. Callers that also open a database use it
// first, so that a journal they cannot read leaves the database untouched. It returns nil if dir does
// not exist. Other errors say what could not be read.
func CheckVersion(dir string, version uint32) error {
	all, err := segments(disk{}, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("journal: list %s: %w", dir, err)
	}
	return checkVersions(disk{}, all, version)
}

// checkVersions returns a *VersionError for the first segment whose version is above reads. It runs
// before any other check. It ignores damage, which callers find when they read the segments.
func checkVersions(files fileSystem, all []segment, reads uint32) error {
	head := make([]byte, segmentHeader)
	for _, s := range all {
		f, err := files.open(s.path, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the journal is in use and has just deleted this segment
		}
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		n, err := f.ReadAt(head, 0)
		if closeErr := f.Close(); err == nil || errors.Is(err, io.EOF) {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("journal: read %s: %w", s.path, err)
		}
		var newer *VersionError
		if _, err := parseVersion(s, head[:n], reads); errors.As(err, &newer) {
			return err
		}
	}
	return nil
}

// scan reads all segments, checks that they belong together, and calls f for every record.
func scan(files fileSystem, dir string, reads uint32, f func(record) error) (*recovered, error) {
	all, err := segments(files, dir)
	if err != nil {
		return nil, fmt.Errorf("journal: list %s: %w", dir, err)
	}
	if err := checkVersions(files, all, reads); err != nil {
		return nil, err
	}
	r := &recovered{reads: reads, segments: all}
	for i := range all {
		err := r.read(files, i, f)
		if errors.Is(err, fs.ErrNotExist) && r.next == 0 && i+1 < len(all) {
			continue // the journal is in use and has just deleted its oldest segment
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// read reads segment i and calls f for its records. All earlier segments were read before.
func (r *recovered) read(files fileSystem, i int, f func(record) error) error {
	s := &r.segments[i]
	if err := r.load(files, s.path); err != nil {
		return err
	}
	id, version, err := parseHead(*s, r.bytes, r.reads)
	switch {
	case err != nil:
		return err
	case r.next != 0 && id != r.id:
		return s.damaged(16, "it belongs to another journal than the segments before it")
	case r.next != 0 && s.first != r.next:
		before := r.segments[i-1]
		return before.damaged(int(before.end), "it ends before record %d, and the next segment begins at record %d",
			r.next, s.first)
	}
	r.id, r.version, r.next, r.batch, r.durable = id, version, s.first, segmentHeader, 0
	for end, seen := segmentHeader, -1; ; seen = end {
		end, r.next, err = walk(r.bytes, end, r.next, func(rec record) error {
			if rec.durable != r.durable {
				r.batch, r.durable = rec.at, rec.durable
			}
			return f(rec)
		})
		s.end = int64(end)
		if err != nil {
			return err
		}
		damage := proveTorn(*s, r.bytes, end, r.next)
		if damage == nil || end == seen {
			return damage
		}
		// The journal may be in use: this record may have been written after the read passed its place, and the later record
		// before the read reached it. Read the segment again to find out.
		if err := r.load(files, s.path); err != nil {
			return err
		}
	}
}

// load reads a file into r.bytes.
func (r *recovered) load(files fileSystem, path string) error {
	f, err := files.open(path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	size, err := f.size()
	if err == nil {
		r.bytes = slices.Grow(r.bytes[:0], int(size))[:size]
		_, err = io.ReadFull(io.NewSectionReader(f, 0, size), r.bytes)
	}
	if err != nil {
		return fmt.Errorf("journal: read %s: %w", path, err)
	}
	return nil
}

// recoverDir reads the journal in dir and prepares its last segment for appending: the records found
// are made durable, and a torn tail is overwritten with zeros. The returned file is nil if there is no
// segment.
func recoverDir(files fileSystem, dir string, reads uint32) (*recovered, file, error) {
	r, err := scan(files, dir, reads, func(record) error { return nil })
	if err != nil {
		return nil, nil, err
	}
	if err := r.checkEnd(); err != nil {
		return nil, nil, err
	}
	if err := removeSpares(files, dir); err != nil {
		return nil, nil, fmt.Errorf("journal: remove old files: %w", err)
	}
	if len(r.segments) == 0 {
		return r, nil, nil
	}
	s := r.segments[len(r.segments)-1]
	f, err := files.open(s.path, os.O_RDWR)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	if err := errors.Join(r.rewriteLastBatch(s, f), files.syncDir(dir), r.markRotation(files)); err != nil {
		return nil, nil, fmt.Errorf("journal: recover %s: %w", s.path, errors.Join(err, f.Close()))
	}
	return r, f, nil
}

// checkEnd returns a DamageError if the last segment ends with a rotation mark, because the segment
// after it is missing. The caller holds the lock: in a journal in use, that segment may have been made
// after the listing.
func (r *recovered) checkEnd() error {
	if len(r.segments) == 0 {
		return nil
	}
	s := r.segments[len(r.segments)-1]
	if mark, ok := parseRecord(r.bytes[s.end:]); ok && mark.rotated() && mark.seq == r.next-1 {
		return s.damaged(int(s.end), "the segment that begins at record %d is missing", r.next)
	}
	return nil
}

// rewriteLastBatch writes the last batch again, writes zeros after it, and syncs. Rewriting is
// necessary: the previous process may have ended before its sync, or because the sync failed. In that
// case the kernel shows bytes that are not on the disk and that another sync would not write.
func (r *recovered) rewriteLastBatch(s segment, f file) error {
	end := r.marked(int(s.end))
	written := len(bytes.TrimRight(r.bytes, "\x00"))
	clear(r.bytes[end:])
	if _, err := f.WriteAt(r.bytes[r.batch:max(end, written)], int64(r.batch)); err != nil {
		return err
	}
	return f.sync()
}

// markRotation writes a rotation mark into the last segment but one. The previous process may have ended
// after it made the last segment and before it wrote the mark; without the mark, a later loss of the
// last segment would go unnoticed.
func (r *recovered) markRotation(files fileSystem) error {
	n := len(r.segments)
	if n < 2 || r.next > r.segments[n-1].first {
		return nil // the mark was synced before the first record
	}
	before := r.segments[n-2]
	f, err := files.open(before.path, os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(appendRecord(nil, r.next-1, r.next, nil), before.end)
	if err == nil {
		err = f.sync()
	}
	return errors.Join(err, f.Close())
}

// SetAside moves all segments of dir into the new directory subfolder of dir, so that a new journal can start in dir.
// It deletes nothing. The error says what could not be moved, or wraps ErrInUse.
func SetAside(dir, subfolder string) error {
	lock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	aside := filepath.Join(dir, subfolder)
	all, err := segments(disk{}, dir)
	if err == nil {
		err = os.Mkdir(aside, 0o750)
	}
	// Move the newest first and sync each move: a power cut then leaves the front of the journal.
	for _, s := range slices.Backward(all) {
		if err == nil {
			err = os.Rename(s.path, filepath.Join(aside, filepath.Base(s.path)))
		}
		if err == nil {
			err = errors.Join(disk{}.syncDir(aside), disk{}.syncDir(dir))
		}
	}
	if err != nil {
		return fmt.Errorf("journal: set aside %s: %w", dir, err)
	}
	return nil
}
