package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// markerName is the file that says that a restore into its directory has not ended.
const markerName = "RESTORING"

// marker is what that file holds.
type marker struct {
	Backup string    `json:"backup"` // the file that is restored
	Seq    uint64    `json:"seq"`
	Digest hexDigest `json:"digest"`
	Epoch  uint64    `json:"epoch"` // that the database is given, which tells it from any other

	Journal string `json:"journal,omitempty"` // as Restored has it
	Tokens  string `json:"tokens,omitempty"`  // as Restored has it
}

// UnfinishedError says what to do about a restore that has not ended.
type UnfinishedError struct{ Data string } // the data directory

// Error names the directory and says what to run.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("a restore into %s was begun and has not ended: run outcry restore there again, which does it "+
		"anew or finishes it", e.Data)
}

// Unfinished returns an *UnfinishedError if a restore into a data directory was begun and
// has not ended, nil if there is none. No server may start there. Any other error says
// why the directory cannot be looked into.
func Unfinished(data string) error {
	_, err := os.Lstat(filepath.Join(data, markerName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("backup: %w", err)
	}
	return &UnfinishedError{data}
}

// readMarker returns the marker of a data directory, nil if there is none.
func readMarker(data string) (*marker, error) {
	b, err := os.ReadFile(filepath.Join(data, markerName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	m := new(marker)
	if err == nil {
		err = json.Unmarshal(b, m)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: %s of %s: %w", markerName, data, err)
	}
	return m, nil
}

// write puts the marker into a data directory.
func (m *marker) write(data string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return writeFile(filepath.Join(data, markerName), append(b, '\n'))
}

// removeMarker takes it out again: the restore has ended.
func removeMarker(data string) error {
	if err := os.Remove(filepath.Join(data, markerName)); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return syncDir(data)
}
