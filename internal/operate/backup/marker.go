package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// markerName is a file in the data directory that exists while a restore into it is unfinished.
const markerName = "RESTORING"

// marker is the content of that file.
type marker struct {
	Backup string    `json:"backup"` // the file that is being restored
	Seq    uint64    `json:"seq"`
	Digest hexDigest `json:"digest"`
	Epoch  uint64    `json:"epoch"` // the epoch given to the restored database, which identifies it

	Journal string `json:"journal,omitempty"` // see Restored
	Tokens  string `json:"tokens,omitempty"`  // see Restored
}

// UnfinishedError means that a restore into a data directory has not been finished.
type UnfinishedError struct{ Data string } // the data directory

// Error names the directory and the command that finishes the restore.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("a restore into %s was begun and has not ended: run outcry restore there again, which "+
		"starts over or finishes it", e.Data)
}

// Unfinished returns an *UnfinishedError if a restore into a data directory is unfinished, and nil if not. No
// server may start in such a directory. Any other error says why the directory could not be checked.
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

// readMarker returns the marker of a data directory, nil if the directory has no marker.
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

// write writes the marker into a data directory.
func (m *marker) write(data string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return writeFile(filepath.Join(data, markerName), append(b, '\n'))
}

// removeMarker removes the marker once the restore is finished.
func removeMarker(data string) error {
	if err := os.Remove(filepath.Join(data, markerName)); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return syncDir(data)
}
