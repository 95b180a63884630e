package class

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"outcry/internal/auth"
	"outcry/internal/journal"
	"outcry/internal/journal/durable"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres/local"
)

// keptMax bounds the number of earlier exchanges kept beside a data directory, so that resets in a loop do not fill
// the disk.
const keptMax = 100

// keptFiles are the files that a new data directory takes over from the old one.
var keptFiles = []string{auth.TokensFile, auth.KeysFile}

// ResetOptions name the exchange that Reset resets, and configure how it asks for confirmation.
type ResetOptions struct {
	Data   string // data directory; an absolute path
	Yes    bool   // do not ask
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer // gets the question
}

// reset is one call of Reset.
type reset struct {
	ResetOptions
	data  string
	fresh string // path at which the new directory is made
	kept  string // path to which the old directory is renamed
}

// Reset replaces the data directory of a stopped exchange by a new one with the same tokens, and keeps the old one
// under another name. After an error nothing has changed, unless the error says otherwise.
func Reset(o ResetOptions) error {
	r := &reset{ResetOptions: o, data: o.Data, fresh: o.Data + ".new",
		kept: o.Data + time.Now().UTC().Format("-20060102-150405")}
	return ofAnother(r.data, r.run())
}

func (r *reset) run() error {
	if r.interrupted() {
		if err := os.Rename(r.fresh, r.data); err != nil {
			return err
		}
		fmt.Fprintf(r.Stdout, "an earlier reset is completed: %s is empty except for its tokens\n", r.data)
		return durable.Dir(filepath.Dir(r.data))
	}
	if err := r.check(); err != nil {
		return err
	}
	lock, err := journal.Lock(r.data)
	if errors.Is(err, journal.ErrInUse) {
		return fmt.Errorf("stop the exchange first: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the lock ends with this process at the latest
	if _, err := local.RunningURL(filepath.Join(r.data, "postgres")); !errors.Is(err, local.ErrNotRunning) {
		return errors.Join(errors.New(
			"the exchange was killed, and its Postgres is still running: start the exchange, and stop it"), err)
	}
	if !r.Yes && !r.confirmed() {
		return errors.New("not confirmed: nothing is changed")
	}
	if err := r.swap(); err != nil {
		return err
	}
	fmt.Fprintf(r.Stdout, "kept   %s; outcryd --data %s starts it again\n", r.kept, r.kept)
	fmt.Fprintf(r.Stdout, "new    %s, with the same tokens\n", r.data)
	fmt.Fprintf(r.Stdout, "next   start the exchange, and repeat outcry-lab class new\n")
	return nil
}

// interrupted reports whether an earlier reset has renamed the old directory, but not yet the new one.
func (r *reset) interrupted() bool {
	_, errData := os.Lstat(r.data)
	_, errFresh := os.Lstat(filepath.Join(r.fresh, auth.TokensFile))
	return errors.Is(errData, os.ErrNotExist) && errFresh == nil
}

// check returns nil if the directory can be reset, and otherwise the reason.
func (r *reset) check() error {
	if err := settings.RequireDir(r.data, "there is no data directory %s", r.data); err != nil {
		return err
	}
	if err := backup.Unfinished(r.data); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(r.data, "raft")); err == nil {
		return fmt.Errorf("%s belongs to a node of a cluster, which gets its history from the other nodes", r.data)
	}
	if there, err := journal.Exists(filepath.Join(r.data, "journal")); err != nil || !there {
		return errors.Join(err, fmt.Errorf("no exchange in %s: nothing to reset", r.data))
	}
	if err := settings.RequireDir(filepath.Join(r.data, "postgres", "data"),
		"the exchange in %s has no local Postgres: name its database with --database-url", r.data); err != nil {
		return err
	}
	if before, _ := filepath.Glob(r.data + "-*-*"); len(before) >= keptMax {
		return fmt.Errorf("there are %d earlier exchanges, from %s on: remove some", len(before), before[0])
	}
	if _, err := os.Lstat(r.kept); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s already exists: wait a second", r.kept), err)
	}
	return nil
}

// confirmed asks the user, and reports whether the answer is yes.
func (r *reset) confirmed() bool {
	fmt.Fprintf(r.Stderr,
		"All accounts, shares and orders in %s are removed; the old exchange is kept as\n%s.\nType yes to continue: ",
		r.data, r.kept)
	answer, _ := bufio.NewReader(io.LimitReader(r.Stdin, 16)).ReadString('\n') // a read error counts as no
	return strings.TrimSpace(answer) == "yes"
}

// swap replaces the old directory by the new one. After an error the old one is at its former place, unless
// the error says otherwise.
func (r *reset) swap() (err error) {
	if err := r.makeFresh(); err != nil {
		return errors.Join(err, os.RemoveAll(r.fresh))
	}
	if err := os.Rename(r.data, r.kept); err != nil {
		return errors.Join(err, os.RemoveAll(r.fresh))
	}
	if err := os.Rename(r.fresh, r.data); err != nil {
		return errors.Join(err, os.Rename(r.kept, r.data))
	}
	return durable.Dir(filepath.Dir(r.data))
}

// makeFresh makes the new directory, with the owner and the mode of the old one.
func (r *reset) makeFresh() error {
	if err := os.RemoveAll(r.fresh); err != nil { // left by a failed reset
		return err
	}
	info, err := os.Stat(r.data)
	if err != nil {
		return err
	}
	if err := os.Mkdir(r.fresh, 0o700); err != nil {
		return err
	}
	for _, name := range keptFiles {
		content, err := os.ReadFile(filepath.Join(r.data, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = writeSecret(filepath.Join(r.fresh, name), content)
		}
		if err == nil {
			err = giveAs(info, filepath.Join(r.fresh, name))
		}
		if err != nil {
			return err
		}
	}
	if err := os.Chmod(r.fresh, info.Mode().Perm()); err != nil {
		return err
	}
	if err := giveAs(info, r.fresh); err != nil {
		return err
	}
	return durable.Dir(r.fresh)
}

// giveAs changes the owner of a file to that of another file, if this program runs as root.
func giveAs(other os.FileInfo, path string) error {
	owner, ok := other.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(owner.Uid), int(owner.Gid))
}
