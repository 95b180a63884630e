package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"outcry/internal/journal/durable"
)

// Names in the data directory.
const (
	TokensFile = "tokens"
	KeysFile   = "hmac-keys"
	lockFile   = "tokens.lock"
	healthFile = "health-token"
)

// Add makes a token for a scope and writes what the file of the data directory dir
// says of it. expires is the zero time for never. It returns the token, which is
// nowhere else. dir is made if it is not there. After an error the file is as it
// was, unless only the sync of the directory failed.
func Add(dir string, scope Scope, expires time.Time, note string) (token string, e Entry, err error) {
	if err := checkNote(note); err != nil {
		return "", Entry{}, err
	}
	token, e = newToken()
	e.Scope, e.Expires, e.Note = scope, expires, note
	if err := kindTokens.add(dir, &e); err != nil {
		return "", Entry{}, err
	}
	return token, e, nil
}

// add writes what the file of the data directory dir says of a token or a key, and sets its times.
func (k kind) add(dir string, e *Entry) error {
	e.Created = time.Now().Truncate(time.Second).UTC()
	if expires := e.Expires; !expires.IsZero() {
		if e.Expires = expires.Truncate(time.Second).UTC(); !e.Expires.After(e.Created) {
			return fmt.Errorf("a token that expires at %s has expired already", expires.Format(time.RFC3339))
		}
	}
	if err := durable.MakeDir(dir); err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	return k.edit(dir, func(all []Entry) ([]Entry, error) {
		if len(all) >= entriesMax {
			return nil, fmt.Errorf("there are %d tokens, and no more are taken: revoke some", len(all))
		}
		return append(all, *e), nil
	})
}

// file returns the name of the file in a data directory.
func (k kind) file() string {
	if k == kindKeys {
		return KeysFile
	}
	return TokensFile
}

// List returns what the file of a data directory says, oldest first; nothing where
// there is no file.
func List(dir string) ([]Entry, error) { return readFile(filepath.Join(dir, TokensFile)) }

// Revoke takes the token or the key with an id out of its file in a data directory. The error
// names the id if there is none. After an error the file is as it was, unless only
// the sync of the directory failed.
func Revoke(dir, id string) error {
	if len(id) != idDigits || !isHex(id) { // it may be a whole token: it is not repeated
		return fmt.Errorf("what is revoked is named by its id of %d hexadecimal digits, the middle part of a token", idDigits)
	}
	none := fmt.Errorf("there is no token %s", id)
	named := func(e Entry) bool { return e.ID == id }
	for _, k := range []kind{kindTokens, kindKeys} {
		all, err := k.read(filepath.Join(dir, k.file()))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, named) {
			continue
		}
		return k.edit(dir, func(all []Entry) ([]Entry, error) {
			left := slices.DeleteFunc(all, named)
			if len(left) == len(all) {
				return nil, none // another one has done it meanwhile
			}
			return left, nil
		})
	}
	_, err := os.Stat(filepath.Join(dir, TokensFile))
	if _, errKeys := os.Stat(filepath.Join(dir, KeysFile)); err != nil && errKeys != nil {
		return fmt.Errorf("auth: %w", err)
	}
	return none
}

// edit replaces the file with what change makes of it. Two editors wait for each other.
func (k kind) edit(dir string, change func([]Entry) ([]Entry, error)) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	defer lock.Close() // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("auth: lock %s: %w", lock.Name(), err)
	}
	if err := giveToOwner(lock, dir); err != nil {
		return err
	}
	path := filepath.Join(dir, k.file())
	all, err := k.read(path)
	if err != nil {
		return err
	}
	if all, err = change(all); err != nil {
		return err
	}
	file := k.appendFile(nil, all)
	if len(file) > fileBytesMax {
		return fmt.Errorf("the file of tokens would have more than %d bytes: revoke some", fileBytesMax)
	}
	return replaceFile(path, file)
}

// readFile reads a file of tokens; one that is not there has none.
func readFile(path string) ([]Entry, error) { return kindTokens.read(path) }

// read reads a file of tokens or keys; one that is not there has none.
func (k kind) read(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	defer f.Close()
	file, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("auth: read %s: %w", path, err)
	}
	all, err := k.parse(file)
	if err != nil {
		return nil, fmt.Errorf("auth: %s: %w", path, err)
	}
	return all, nil
}

// replaceFile writes a file that only the owner of its directory reads. Anyone who reads
// it meanwhile, also after a crash, sees the old one or the new one.
func replaceFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = giveToOwner(f, dir) // before the sync: a power cut must not leave it to root
	}
	if err == nil {
		err = durable.File(f)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("auth: write %s: %w", path, err)
	}
	if err := durable.Dir(dir); err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	return nil
}

// giveToOwner gives a file to the owner of its directory, where root has made it: the
// server that has to read it runs as that user.
func giveToOwner(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	// Whose directory it is could have put a link to another file in its place.
	what, err := f.Stat()
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	if s, ok := what.Sys().(*syscall.Stat_t); !ok || !what.Mode().IsRegular() || s.Nlink > 1 {
		return fmt.Errorf("auth: %s is not a file of its own", f.Name())
	}
	if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	return nil
}
