package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// linksMax is how many links a path may have, as in the kernel.
const linksMax = 40

// openFiles is where the kernel has a link for each open file of a process. It leads to the file, whatever
// its text says, and nobody can plant one.
const openFiles = "/proc/*/fd"

// place is what a path passes: a folder, a link, or its end.
type place struct {
	path string
	mode fs.FileMode
	uid  uint32 // its owner
}

// Resolve returns the path of a result without its links: a change of one of them later changes
// nothing. The file need not be there. The error names a folder that is not, or a link of another user
// than root and who we are: it is not ours to follow.
func Resolve(path string) (string, error) {
	_, end, err := routeTo(path)
	return end, err
}

// CheckResults returns ErrNotTried, with why, if a server that runs as a user (as in Options) could write
// one of these or lead it elsewhere, and that user is not who we are. Files that there are not are made.
func CheckResults(user string, results ...string) error {
	a, another, err := accountOf(user)
	if err != nil || !another {
		return err
	}
	if err := a.guard(nil, results); err != nil {
		return fmt.Errorf("%w: %w", ErrNotTried, err)
	}
	return nil
}

// routeTo returns all that decides where a path leads, from the root on, and its end, which has no link
// and need not be there.
func routeTo(path string) (way []place, end string, err error) {
	if !filepath.IsAbs(path) {
		folder, err := os.Getwd()
		if err != nil {
			return nil, "", fmt.Errorf("grade: %w", err)
		}
		path = folder + "/" + path
	}
	left, at, links := append([]string{"."}, names(path)...), "/", 0
	for len(left) > 0 {
		next := filepath.Join(at, left[0]) // at has no link, so that ".." is the folder that it is in
		left = left[1:]
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) && len(left) == 0 {
			return way, next, nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("grade: %s: %w", path, err)
		}
		uid := info.Sys().(*syscall.Stat_t).Uid
		way = append(way, place{next, info.Mode(), uid})
		if open, _ := filepath.Match(openFiles, at); open || info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if len(left) == 0 && uid != 0 && uid != uint32(os.Getuid()) {
			return nil, "", fmt.Errorf("grade: %s leads to a link of another user, %d: %s: remove it", path, uid, next)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return nil, "", fmt.Errorf("grade: %s: %w", path, err)
		}
		if links++; links > linksMax {
			return nil, "", fmt.Errorf("grade: %s: %w", path, syscall.ELOOP)
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(names(to), left...)
	}
	return way, at, nil
}

// names returns the parts of a path.
func names(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// guardResult returns an error if a could write a result or lead it elsewhere: by way of the file, a folder
// on the way or a link. In a folder with the sticky bit it cannot replace what is another's. It makes a
// result that there is not, empty: in a folder where everybody makes files, the server would make it.
func (a account) guardResult(result string) error {
	way, end, err := routeTo(result)
	if err != nil {
		return err
	}
	refused := func(by string) error {
		return fmt.Errorf("grade: the server, as user %s, could write %s, since %s is open to it: "+
			"choose a folder that only root can write, or chmod go-w", a.Name, result, by)
	}
	var try []string
	made := false
	for _, p := range way {
		made = made || p.path == end
		switch {
		case p.mode&fs.ModeCharDevice != 0: // nobody takes what was written out of it
		case p.uid == a.UID: // it may write it, or soon
			return refused(p.path)
		case p.mode&fs.ModeSymlink != 0, p.mode.IsDir() && p.mode&fs.ModeSticky != 0:
		default:
			try = append(try, p.path)
		}
	}
	if found, err := a.first(writable, try); err != nil || found != "" {
		if err != nil {
			return fmt.Errorf("grade: try what user %s could write: %w", a.Name, err)
		}
		return refused(found)
	}
	if made {
		return nil
	}
	f, err := os.OpenFile(end, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("grade: %w", err)
	}
	return f.Close()
}
