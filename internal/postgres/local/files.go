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
	lockName   = "lock"   // name of the lock file in a cluster's directory
	socketLink = "socket" // name of the link to the socket directory in a cluster's directory

	// socketPrefix begins the names of socket directories, which are all in socketParent. os.TempDir may have
	// a long path or be closed to the user of Postgres, and XDG_RUNTIME_DIR is removed when its user logs out.
	socketPrefix = "outcry-postgres-"
	socketParent = "/tmp"
)

// errLocked is returned for a lock that another process holds.
var errLocked = errors.New("in use by another process")

// lockFile makes a file and locks it until unlock, or the end of the process. It returns errLocked if another
// process holds the lock.
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

// unlock releases a lock and closes its file. Closing the file is not enough, because a child process between
// fork and exec has a copy of it.
func unlock(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
}

// owner returns the user and group that own Postgres's files. other reports whether files must be given to
// them, which only root can do. In a user namespace the files belong to root.
func (c *Cluster) owner() (uid, gid int, other bool) {
	if c.as.Credential != nil {
		return int(c.as.Credential.Uid), int(c.as.Credential.Gid), true
	}
	return 0, 0, os.Geteuid() == 0
}

// own gives a directory and all its content to the user as whom Postgres runs, unless the directory belongs to
// that user already. It may be new, copied by root, or used before by Postgres as another user. Links in it
// are not followed. The directory itself is changed last, so that the next start resumes after an
// interruption.
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

// ownerOf returns the user and group that own a file.
func ownerOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, fmt.Errorf("cluster: %w", err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid), nil
}

// makeSocketDir makes the directory of the Unix socket and a link to it. It first removes the one left by a
// killed process.
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

// removeSocketDir removes the socket directory that a cluster's link leads to. The caller must hold the
// cluster's lock, and the cluster must be stopped.
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

// Remove deletes a stopped cluster with everything in it. If a process holds the cluster's lock, it returns an
// error and deletes nothing.
func Remove(dir string) error {
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("cluster: remove %s: %w", dir, err)
	}
	defer unlock(lock)
	return errors.Join(removeSocketDir(dir), os.RemoveAll(dir))
}

// removeMatching removes all paths that match a pattern.
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

// syncDir syncs a directory, which makes the names in it durable.
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
