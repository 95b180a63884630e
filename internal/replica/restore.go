package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"outcry/internal/journal/durable"
	"outcry/internal/replica/raftlog"
)

// restoreName is the file in the data directory that marks a restore from another node's backup as
// in progress.
const restoreName = raftlog.RestoreFile

// BehindError reports that a node lacks records that no other node keeps. It stops the replica,
// which writes a Restore to the data directory; the process must restart.
type BehindError struct {
	Seq    uint64 // the new journal starts after this record
	Reason error
}

// Error returns a text that names the reason.
func (e *BehindError) Error() string {
	return fmt.Sprintf("replica: this node lacks records that no other node keeps: it must be restored from a backup: %v",
		e.Reason)
}

// Unwrap returns the reason.
func (e *BehindError) Unwrap() error { return e.Reason }

// Restore is a restore in progress. The journal starts again after record Seq and receives what the
// cluster commits from there on. At the same time the database is filled from a backup taken at Seq
// or later. The node takes part in its cluster during the whole restore, so no other node has to
// keep records for it.
type Restore struct {
	Seq   uint64 `json:"seq"`
	Begun bool   `json:"begun"` // the new journal was started
}

// Unrestored returns the restore that a data directory needs, or nil if it needs none. The error
// says why the file cannot be read.
func Unrestored(data string) (*Restore, error) {
	path := filepath.Join(data, restoreName)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	r := new(Restore)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("replica: %s: %w", path, err)
	}
	return r, nil
}

// Discard removes the journal in a folder of the data directory, unless the new journal was started
// already; the backup contains all its records. The new journal starts after Seq. The caller holds
// the directory's lock and has not opened the journal.
func (r *Restore) Discard(folder string) error {
	if r.Begun {
		return nil
	}
	if err := errors.Join(os.RemoveAll(folder), durable.Dir(filepath.Dir(folder))); err != nil {
		return fmt.Errorf("replica: remove the old journal: %w", err)
	}
	return nil
}

// Began records that the new journal was started. It must be called before a record is written to
// it.
func (r *Restore) Began(data string) error {
	if r.Begun {
		return nil
	}
	r.Begun = true
	return r.write(data)
}

// Ended removes the file once the database is restored.
func (r *Restore) Ended(data string) error {
	path := filepath.Join(data, restoreName)
	if err := errors.Join(os.Remove(path), durable.Dir(data)); err != nil {
		return fmt.Errorf("replica: remove %s: %w", path, err)
	}
	return nil
}

// write replaces the file atomically.
func (r *Restore) write(data string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	path := filepath.Join(data, restoreName)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, durable.File(f), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err = errors.Join(err, durable.Dir(data)); err != nil {
		return fmt.Errorf("replica: write %s: %w", path, err)
	}
	return nil
}
