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

// restoreName is the file in the data directory that says that the node is being restored
// from a backup of another one.
const restoreName = raftlog.RestoreFile

// BehindError says that a node lacks records that no other node keeps any more. It ends the
// replica, which leaves a Restore in the data directory: the process has to begin again.
type BehindError struct {
	Seq    uint64 // where the journal begins anew: behind this record
	Reason error
}

// Error says what is missing.
func (e *BehindError) Error() string {
	return fmt.Sprintf("replica: this node has missed records that nobody keeps any more: a backup restores it: %v",
		e.Reason)
}

// Unwrap returns the reason.
func (e *BehindError) Unwrap() error { return e.Reason }

// Restore is a restore that has not ended. The journal is begun anew behind record Seq, and
// gets what the cluster commits from there on; meanwhile the database is filled from a
// backup of Seq or a later record. The node takes part in its cluster all the time, so nobody
// has to keep records for it, however long that takes.
type Restore struct {
	Seq   uint64 `json:"seq"`
	Begun bool   `json:"begun"` // the journal was begun anew
}

// Unrestored returns the restore that a data directory needs, nil if it needs none. The
// error says that the file cannot be read.
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

// Discard removes the journal in a folder of the data directory, unless it was begun anew
// already: all it has is in the backup. The next one begins behind Seq. The caller holds the
// directory's lock and has not opened the journal.
func (r *Restore) Discard(folder string) error {
	if r.Begun {
		return nil
	}
	if err := errors.Join(os.RemoveAll(folder), durable.Dir(filepath.Dir(folder))); err != nil {
		return fmt.Errorf("replica: remove the journal that is too old: %w", err)
	}
	return nil
}

// Began notes that the journal was begun anew, before a record is written to it.
func (r *Restore) Began(data string) error {
	if r.Begun {
		return nil
	}
	r.Begun = true
	return r.write(data)
}

// Ended notes that the database is restored: nothing is left to do.
func (r *Restore) Ended(data string) error {
	path := filepath.Join(data, restoreName)
	if err := errors.Join(os.Remove(path), durable.Dir(data)); err != nil {
		return fmt.Errorf("replica: remove %s: %w", path, err)
	}
	return nil
}

// write puts the file in place of the one before, in one step.
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
