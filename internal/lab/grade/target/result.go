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

// linksMax is how many links a path may pass, as in the kernel.
const linksMax = 40

// openFiles is where the kernel has a link for each open file of a process. Such a link leads to the file regardless
// of its text, and no user can create one.
const openFiles = "/proc/*/fd"

// place is a file on the way along a path: a folder, a link, or the end of the path.
type place struct {
	path string
	mode fs.FileMode
	uid  uint32 // the file's owner
}

// Resolve returns the path of a result with all links resolved, so that a later change of a link has no
// effect. The file may be missing. The error names a missing folder, or a link whose owner is neither
// root nor the kit's own user, which must not be followed.
func Resolve(path string) (string, error) {
	_, end, err := routeTo(path)
	return end, err
}

// CheckResults returns ErrNotTried, with the reason, if a server that runs as user (as in Options) could write
// or redirect one of results, unless user is the kit's own. It creates missing results, empty.
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

// routeTo returns every place that decides where a path leads, beginning with the root, and the path of its end.
// That path has no link in it, and its file may be missing.
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
		next := filepath.Join(at, left[0]) // at contains no link, so ".." is its parent folder
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

// guardResult returns an error if a could write a result or redirect it: through the file, a folder on the way or a
// link. In a folder with the sticky bit, a cannot replace files of other users. guardResult creates a missing
// result as an empty file; otherwise, the server could create it in a folder that everyone can write.
func (a account) guardResult(result string) error {
	way, end, err := routeTo(result)
	if err != nil {
		return err
	}
	refused := func(by string) error {
		return fmt.Errorf("grade: the server, running as user %s, could write %s, since %s lets it: "+
			"choose a folder that only root can write, or chmod go-w", a.Name, result, by)
	}
	var try []string
	made := false
	for _, p := range way {
		made = made || p.path == end
		switch {
		case p.mode&fs.ModeCharDevice != 0: // data written to a device cannot be changed afterwards
		case p.uid == a.UID: // the owner can write it, or make it writable
			return refused(p.path)
		case p.mode&fs.ModeSymlink != 0, p.mode.IsDir() && p.mode&fs.ModeSticky != 0:
		default:
			try = append(try, p.path)
		}
	}
	if found, err := a.first(writable, try); err != nil || found != "" {
		if err != nil {
			return fmt.Errorf("grade: check what user %s could write: %w", a.Name, err)
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
