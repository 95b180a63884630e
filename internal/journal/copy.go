package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"outcry/internal/journal/durable"
)

// Newest returns the id of the journal in dir and the seq of its last record, or one less than the
// seq of its first record if it has none yet. It reads only the last segment, locks and changes
// nothing, and may be called while the journal is in use; it then sees at least the records that
// were synced before the call. The error says that there is no journal, that its last segment is
// damaged (*DamageError) or too new (*VersionError), or what could not be read.
func Newest(dir string, version uint32) (id [16]byte, seq uint64, err error) {
	s, err := Peek(dir, version)
	if err == nil && s.Segments == 0 {
		err = fmt.Errorf("journal: no journal in %s", dir)
	}
	return s.ID, s.Last, err
}

// Oldest returns the seq of the first record of the journal in dir, or the seq that its first record
// will get. It reads only file names and may be called while the journal is in use; segments may be
// removed right after it returns. The error says that there is no journal, or what could not be read.
func Oldest(dir string) (seq uint64, err error) {
	all, err := segments(disk{}, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("journal: list %s: %w", dir, err)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("journal: no journal in %s", dir)
	}
	return all[0].first, nil
}

// Copy copies the journal in the directory from to the directory to, which must not hold a journal.
// No process may have the source open. The copy gets its own id, so that it is not mistaken for the
// source. Copy checks no records; call Inspect first for that. The copy is durable when Copy returns
// nil. The error says what could not be read or written; the target may then be incomplete.
func Copy(from, to string, id [16]byte) error {
	all, err := segments(disk{}, from)
	if err != nil {
		return fmt.Errorf("journal: list %s: %w", from, err)
	}
	if err := durable.MakeDir(to); err != nil {
		return fmt.Errorf("journal: make %s: %w", to, err)
	}
	for _, s := range all {
		if err := copySegment(s.path, filepath.Join(to, filepath.Base(s.path)), id); err != nil {
			return fmt.Errorf("journal: copy %s: %w", s.path, err)
		}
	}
	if err := durable.Dir(to); err != nil {
		return fmt.Errorf("journal: sync %s: %w", to, err)
	}
	return nil
}

// copySegment copies one segment and replaces the id in its header.
func copySegment(from, to string, id [16]byte) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, createFlag, 0o640)
	if err != nil {
		return err
	}
	head := make([]byte, segmentHeader)
	if _, err = io.ReadFull(source, head); err == nil {
		copy(head[16:32], id[:])
		binary.LittleEndian.PutUint32(head[60:], crc32.Checksum(head[:60], castagnoli))
		if _, err = target.Write(head); err == nil {
			_, err = io.Copy(target, source)
		}
	}
	if err == nil {
		err = durable.File(target)
	}
	return errors.Join(err, target.Close())
}
