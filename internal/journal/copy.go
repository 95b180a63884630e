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

// Newest returns the id of the journal in dir and the seq of its last record, one
// below the first one to come where there is none. It reads the last segment alone,
// locks and changes nothing, and may be asked while the journal is in use: all that
// was synced when it is called is counted. The error says that there is no journal,
// that its last segment is damaged (a *DamageError), or what could not be read.
func Newest(dir string, version uint32) (id [16]byte, seq uint64, err error) {
	s, err := Peek(dir, version)
	if err == nil && s.Segments == 0 {
		err = fmt.Errorf("journal: there is no journal in %s", dir)
	}
	return s.ID, s.Last, err
}

// Oldest returns the seq of the first record that the journal in dir has, or will have
// where it has none. It reads no file, and may be asked while the journal is in use: the
// answer was right once. The error says that there is no journal, or what could not be
// read.
func Oldest(dir string) (seq uint64, err error) {
	all, err := segments(disk{}, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("journal: list %s: %w", dir, err)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("journal: there is no journal in %s", dir)
	}
	return all[0].first, nil
}

// Copy copies the journal in the directory from, which nobody may have open, into the
// directory to, which holds none, and gives the copy another id, so that neither can be
// taken for the other. It checks nothing that Inspect has not. The copy is durable when
// it returns. After an error, which says what could not be read or written, to holds a
// part of it.
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

// copySegment copies a segment and writes the id into its header.
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
