package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"outcry/internal/journal/durable"
)

// brokenName is the file in the data directory that marks the node as broken, so that it stays
// down.
const brokenName = "BROKEN"

// BrokenError reports that the history of a node differs from its cluster's.
type BrokenError struct{ Reason error }

// Error returns the reason.
func (e *BrokenError) Error() string {
	return "replica: the history of this node differs from its cluster's: " + e.Reason.Error()
}

// Unwrap returns the reason.
func (e *BrokenError) Unwrap() error { return e.Reason }

// writeBroken durably marks the node of a data directory as broken. An existing file stays, since
// the first reason matters most.
func writeBroken(data string, reason error) error {
	path := filepath.Join(data, brokenName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	_, err = f.WriteString(reason.Error() + "\n")
	if err := errors.Join(err, durable.File(f), f.Close(), durable.Dir(data)); err != nil {
		return fmt.Errorf("replica: write %s: %w", path, err)
	}
	return nil
}

// RefuseBroken returns a *BrokenError with instructions if the file BROKEN marks the node of a data
// directory as broken, nil if the file does not exist, or an error if it cannot be read.
func RefuseBroken(data string) error {
	path := filepath.Join(data, brokenName)
	reason, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	return &BrokenError{fmt.Errorf("%s says: %s; this node stays down and the others continue without it: "+
		"outcry doctor explains it, and outcry cluster replace replaces the node",
		path, strings.TrimSpace(string(reason)))}
}
