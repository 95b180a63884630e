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

// nobody is the id of the user nobody on systems that do not define one.
const nobody = 65534

// account is a user of the system.
type account struct {
	Name     string
	UID, GID uint32
	Home     string // "" means the run's temporary folder
}

// accountOf returns the user that a server runs as if Options.User is name, and whether it is another user than
// the kit's own. The error names a user that does not exist, or that the kit cannot become.
func accountOf(name string) (a account, another bool, err error) {
	home, _ := os.UserHomeDir() // "" on an error
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

// look finds a user by name or number; "" means the user nobody. A number need not belong to a named user.
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
	uid, wrongUser := strconv.ParseInt(found.Uid, 10, 64) // on macOS the user nobody has the id -2
	gid, wrongGroup := strconv.ParseInt(found.Gid, 10, 64)
	if err := errors.Join(wrongUser, wrongGroup); err != nil {
		return account{}, fmt.Errorf("grade: user %q: %w", name, err)
	}
	return account{Name: found.Username, UID: uint32(uid), GID: uint32(gid)}, nil
}

// Each script prints the first argument for which its condition is true: a readable file, a writable file, a folder
// that cannot be entered, a file that cannot be read.
const (
	readable = `for f; do if [ -r "$f" ]; then printf %s "$f"; exit; fi; done`
	writable = `for f; do if [ -w "$f" ]; then printf %s "$f"; exit; fi; done`
	closed   = `for f; do if ! (cd "$f") 2>/dev/null; then printf %s "$f"; exit; fi; done`
	secret   = `for f; do if ! [ -r "$f" ]; then printf %s "$f"; exit; fi; done`
)

// guard returns an error that names a hidden file that a could read, or a result that a could write or
// redirect. It creates missing results, empty.
func (a account) guard(hidden, results []string) error {
	files, err := filesOf(hidden)
	if err != nil {
		return err
	}
	found, err := a.first(readable, files)
	if err != nil {
		return fmt.Errorf("grade: check what user %s could read: %w", a.Name, err)
	}
	if found != "" {
		return fmt.Errorf("grade: the server, running as user %s, could read %s: chmod -R go-rwx", a.Name, found)
	}
	for _, result := range results {
		if err := a.guardResult(result); err != nil {
			return err
		}
	}
	return nil
}

// needs returns an error if a cannot enter folder or cannot read one of files.
func (a account) needs(folder string, files []string) error {
	for _, what := range []struct {
		script, verb, remedy string
		paths                []string
	}{
		{closed, "enter", "chmod a+x, and the folders above it", []string{folder}},
		{secret, "read", "chmod a+r", files},
	} {
		found, err := a.first(what.script, what.paths)
		if err != nil {
			return fmt.Errorf("grade: check whether user %s can %s %s: %w", a.Name, what.verb, folder, err)
		}
		if found != "" {
			return fmt.Errorf("grade: the server's user %s cannot %s %s: %s", a.Name, what.verb, found, what.remedy)
		}
	}
	return nil
}

// first runs one of the scripts above, as the user of a, on files, and returns its output.
func (a account) first(script string, files []string) (string, error) {
	if len(files) == 0 {
		return "", nil
	}
	try := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, files...)...)
	try.Dir = "/"
	try.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.UID, Gid: a.GID}}
	found, err := try.Output()
	return string(found), err
}

// filesOf returns the absolute paths of all files among paths and in the folders among them. A missing path counts
// as a file.
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

// environment returns a server's environment, which inherits only PATH from the kit.
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
