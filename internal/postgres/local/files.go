package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	lockName   = "lock"   // the file that is locked, in a cluster's directory
	socketLink = "socket" // the link to the socket directory, there too

	// socketPrefix begins the names of socket directories, all in socketParent.
	// That is not os.TempDir, which may be deep, or closed to the user of Postgres;
	// and not XDG_RUNTIME_DIR, which goes away when its user logs out.
	socketPrefix = "outcry-postgres-"
	socketParent = "/tmp"
)

// errLocked is returned for a lock that another process holds.
var errLocked = errors.New("in use by another process")

// lockFile makes a file and locks it until unlock, or the end of the process. It
// returns errLocked where somebody else has it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, err
	}
	return f, nil
}

// unlock gives a lock free and closes its file. Closing alone does not suffice: a
// process that is just being started has a copy of the file until its program begins.
func unlock(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
}

// owner returns whose Postgres's files are. other reports whether that is to be seen to:
// only root can give files away. In a user namespace they are root's.
func (c *Cluster) owner() (uid, gid int, other bool) {
	if c.as.Credential != nil {
		return int(c.as.Credential.Uid), int(c.as.Credential.Gid), true
	}
	return 0, 0, os.Geteuid() == 0
}

// own gives a directory with all that is in it to the user whom Postgres runs as, if
// it is not that user's yet: a new one, one that root has copied, or one that Postgres ran
// on as another user. That user may still put links there, which are not followed. The
// directory comes last: a start that is cut off leaves it for the next one.
func (c *Cluster) own(dir string) error {
	uid, gid, other := c.owner()
	if !other {
		return nil
	}
	if owner, _, err := ownerOf(dir); err != nil || owner == uid {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		return root.Lchown(path, uid, gid)
	})
	if err == nil {
		err = root.Chown(".", uid, gid)
	}
	if err != nil {
		return fmt.Errorf("cluster: give %s to user %d: %w", dir, uid, err)
	}
	return nil
}

// ownerOf returns whose a file is.
func ownerOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, fmt.Errorf("cluster: %w", err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid), nil
}

// makeSocketDir makes the directory of the Unix socket, with a link to it, and
// removes the one of a process that was killed.
func (c *Cluster) makeSocketDir() error {
	if err := removeSocketDir(c.options.Dir); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(socketParent, socketPrefix)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	c.socket = dir
	if err := os.Symlink(dir, filepath.Join(c.options.Dir, socketLink)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return c.own(dir)
}

// removeSocketDir removes the socket directory that a cluster's link leads to. The
// cluster is locked and does not run: nobody listens there.
func removeSocketDir(clusterDir string) error {
	link := filepath.Join(clusterDir, socketLink)
	target, err := os.Readlink(link)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && filepath.Dir(target) == socketParent && strings.HasPrefix(filepath.Base(target), socketPrefix) {
		err = os.RemoveAll(target)
	}
	if err := errors.Join(err, os.Remove(link)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// Remove deletes a cluster that does not run, with everything in it. It returns an
// error, and deletes nothing, while a process has it.
func Remove(dir string) error {
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("cluster: remove %s: %w", dir, err)
	}
	defer unlock(lock)
	return errors.Join(removeSocketDir(dir), os.RemoveAll(dir))
}

// removeMatching removes what a pattern matches.
func removeMatching(pattern string) error {
	found, err := filepath.Glob(pattern)
	for _, path := range found {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("cluster: sync %s: %w", dir, err)
	}
	return nil
}
