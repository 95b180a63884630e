package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// nobody is the number of the user of that name where the system does not name it.
const nobody = 65534

// account is a user of the system.
type account struct {
	Name     string
	UID, GID uint32
	Home     string // "" is for a folder of the run
}

// accountOf returns the user that a server runs as if Options has this one, and whether that is not
// who we are. The error names a user that there is not, or that we cannot be.
func accountOf(name string) (a account, another bool, err error) {
	home, _ := os.UserHomeDir() // "" then
	self := account{os.Getenv("USER"), uint32(os.Getuid()), uint32(os.Getgid()), home}
	if name == "" && self.UID != 0 {
		return self, false, nil
	}
	a, err = look(name)
	switch {
	case err != nil:
		return a, false, err
	case a.UID == self.UID:
		return self, false, nil
	case self.UID != 0:
		return a, false, fmt.Errorf("grade: only root can run a server as user %q", name)
	}
	return a, true, nil
}

// look finds a user by name or number; "" is nobody. A number need not have a name.
func look(name string) (account, error) {
	found, err := user.Lookup(name)
	if name == "" {
		found, err = user.Lookup("nobody")
		if err != nil {
			return account{Name: "nobody", UID: nobody, GID: nobody}, nil
		}
	}
	if err != nil {
		found, err = user.LookupId(name)
	}
	if err != nil {
		id, wrong := strconv.ParseUint(name, 10, 31)
		if wrong != nil {
			return account{}, fmt.Errorf("grade: there is no user %q", name)
		}
		return account{Name: name, UID: uint32(id), GID: uint32(id)}, nil
	}
	uid, wrongUser := strconv.ParseInt(found.Uid, 10, 64) // nobody of macOS is -2
	gid, wrongGroup := strconv.ParseInt(found.Gid, 10, 64)
	if err := errors.Join(wrongUser, wrongGroup); err != nil {
		return account{}, fmt.Errorf("grade: user %q: %w", name, err)
	}
	return account{Name: found.Username, UID: uint32(uid), GID: uint32(gid)}, nil
}

// Scripts that print the first of their arguments that can be read, or written or replaced. In a
// folder with the sticky bit nobody replaces what is another's.
const (
	readable = `for f; do if [ -r "$f" ]; then printf %s "$f"; exit; fi; done`
	writable = `for f; do d=${f%/*}/; if [ -w "$f" ] || { [ -w "$d" ] && ! [ -k "$d" ]; }; then
printf %s "$f"; exit; fi; done`
)

// guard returns an error that names a file that a could read or write and must not. Results that
// there are not it makes, empty: in a folder where everybody makes files, the server would make them.
func (a account) guard(hidden, results []string) error {
	for _, path := range results {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("grade: %w", err)
		}
		_ = f.Close() // nothing was written
	}
	for _, what := range []struct {
		script, verb, remedy string
		paths                []string
	}{
		{readable, "read", "chmod -R go-rwx", hidden},
		{writable, "write", "choose a folder that only root can write, or chmod go-w", results},
	} {
		files, err := filesOf(what.paths)
		if err != nil {
			return err
		}
		if len(files) == 0 {
			continue
		}
		try := exec.Command("/bin/sh", append([]string{"-c", what.script, "sh"}, files...)...)
		try.Dir = "/"
		try.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.UID, Gid: a.GID}}
		found, err := try.Output()
		if err != nil {
			return fmt.Errorf("grade: try what user %s could %s: %w", a.Name, what.verb, err)
		}
		if len(found) > 0 {
			return fmt.Errorf("grade: the server, as user %s, could %s %s: %s", a.Name, what.verb, found, what.remedy)
		}
	}
	return nil
}

// filesOf returns the absolute paths of files and of all files in folders. A path that there is not
// is a file.
func filesOf(paths []string) (files []string, err error) {
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("grade: %w", err)
		}
		err = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() {
				files = append(files, path)
				return nil
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("grade: %w", err)
		}
	}
	return files, nil
}

// environment is what a server gets: nothing of ours but PATH and the language.
func (a account) environment(port int, scratch, mark string) []string {
	home, path := a.Home, os.Getenv("PATH")
	if home == "" {
		home = scratch
	}
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return []string{"PORT=" + strconv.Itoa(port), "PATH=" + path, "HOME=" + home, "TMPDIR=" + scratch,
		"USER=" + a.Name, "LOGNAME=" + a.Name, "LANG=C.UTF-8", markName + "=" + mark}
}
