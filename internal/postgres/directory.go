package postgres

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"outcry/internal/journal/durable"
)

// DirectoryFile is the name of the file in a data directory that holds the directory's number.
const DirectoryFile = "directory"

// machineIDs are files with an id of the machine. The first one that exists is used.
var machineIDs = []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}

// DirectoryNumber returns the number of a data directory, by which a server recognizes leftover Postgres sessions of
// its predecessor. A directory that was copied or moved to another file system gets a new number: a copy must not end
// the sessions of the original. The caller must hold the directory's lock. The error says why the number could not be
// stored; the returned number is valid for this run, and the next run will get another one.
func DirectoryNumber(dir string) (number string, err error) {
	where, err := placeOf(dir)
	path := filepath.Join(dir, DirectoryFile)
	if err == nil {
		kept, readErr := os.ReadFile(path)
		number, beside, _ := strings.Cut(strings.TrimSpace(string(kept)), " ")
		if len(number) == hex.EncodedLen(numberBytes) && beside == where {
			return number, nil
		}
		if readErr != nil && !errors.Is(readErr, os.ErrNotExist) {
			err = readErr
		}
	}
	random := make([]byte, numberBytes)
	rand.Read(random) // never fails
	number = hex.EncodeToString(random)
	if err == nil {
		err = keepNumber(path, number+" "+where+"\n")
	}
	if err != nil {
		return number, fmt.Errorf("postgres: the number of the data directory: %w", err)
	}
	return number, nil
}

// numberBytes is the length of a number. It fits into an application_name.
const numberBytes = 8

// placeOf identifies a directory by machine, device and inode. The machine's id is confidential, so only a
// hash of it is kept.
func placeOf(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("the system does not say which directory this is")
	}
	machine := "none"
	for _, path := range machineIDs {
		if id, err := os.ReadFile(path); err == nil && len(id) > 0 {
			sum := sha256.Sum256(append([]byte("outcry "), id...))
			machine = hex.EncodeToString(sum[:8])
			break
		}
	}
	return fmt.Sprintf("machine=%s device=%d inode=%d", machine, stat.Dev, stat.Ino), nil
}

// keepNumber writes a file atomically and syncs it.
func keepNumber(path, content string) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err == nil {
		err = durable.File(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return durable.Dir(filepath.Dir(path))
}
