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

// Names of files in the data directory.
const (
	TokensFile = "tokens"
	KeysFile   = "hmac-keys"
	lockFile   = "tokens.lock"
	healthFile = "health-token"
)

// Add creates a token for a scope and adds it to the file of the data directory dir, which it creates if necessary.
// expires is the zero time for a token that never expires. Add returns the token, which is stored nowhere else. The
// error says that the note or the time is invalid, that there are too many tokens, or what failed on the disk. After
// an error the file is unchanged, unless only the sync of the directory failed.
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

// add adds e to the file of the data directory dir. It sets e.Created, and rounds e.Expires down to seconds.
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
			return nil, fmt.Errorf("there are %d tokens, which is the limit: revoke some", len(all))
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

// List returns the tokens in the file of a data directory, oldest first. It returns none if there is no file.
func List(dir string) ([]Entry, error) { return readFile(filepath.Join(dir, TokensFile)) }

// Revoke removes the token or the key with an id from its file in a data directory. If there is none, the
// error names the id. After an error the file is unchanged, unless only the sync of the directory failed.
func Revoke(dir, id string) error {
	if len(id) != idDigits || !isHex(id) { // it may be a whole token, so it is not quoted
		return fmt.Errorf("give the id of the token: %d hexadecimal digits, its middle part", idDigits)
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
				return nil, none // another process has revoked it since
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

// edit replaces the entries of the file by the result of change. It holds a lock, so that editors wait for
// each other.
func (k kind) edit(dir string, change func([]Entry) ([]Entry, error)) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	defer lock.Close() // closing unlocks it
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

// readFile reads a file of tokens. It returns none if there is no file.
func readFile(path string) ([]Entry, error) { return kindTokens.read(path) }

// read reads a file of tokens or keys. It returns none if there is no file.
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

// replaceFile writes a file that only the owner of its directory can read. Readers see the old content or the
// new one, never a mixture, even after a crash.
func replaceFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // CreateTemp uses mode 0600
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = giveToOwner(f, dir) // before the sync, so that a power cut does not leave the file to root
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

// giveToOwner changes the owner of a file that root created to the owner of its directory, because the server runs as
// that user and reads the file.
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
	// The directory's owner could have replaced the file by a link to another one.
	what, err := f.Stat()
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	if s, ok := what.Sys().(*syscall.Stat_t); !ok || !what.Mode().IsRegular() || s.Nlink > 1 {
		return fmt.Errorf("auth: %s is not a regular file, or has more than one hard link", f.Name())
	}
	if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	return nil
}
