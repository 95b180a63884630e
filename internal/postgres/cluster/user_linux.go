package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// asUser returns how Postgres's programs are to be run on a cluster in dir.
//
// Postgres refuses to run as root. As root, they run in a user namespace of their
// own in which root's own id goes by the number of an unprivileged user. So
// Postgres sees a user that is not root, and the files on disk stay root's: also
// a directory below a home that is closed to everybody else works. Where the
// system forbids user namespaces, they run as an unprivileged user, who then
// must be able to reach the directory.
func asUser(dir, bin string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return nil, err
	}
	namespace := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: 0, Size: 1}},
	}
	probe := exec.Command(filepath.Join(bin, "postgres"), "--version")
	probe.SysProcAttr = namespace
	if err := probe.Run(); err == nil && !ownedByOther(dir) {
		return namespace, nil
	}
	return asOther(dir, bin, uid, gid)
}

// endWithThread has the kernel send s to the process when the thread that starts
// it ends: at the latest when this process does, however that happens.
func endWithThread(attr *syscall.SysProcAttr, s syscall.Signal) { attr.Pdeathsig = s }

// ownedByOther tells whether a cluster is there whose files are not root's: it
// was made where user namespaces are forbidden.
func ownedByOther(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "data"))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid != 0
}

// asOther makes dir the unprivileged user's and runs as that user.
func asOther(dir, bin string, uid, gid int) (*syscall.SysProcAttr, error) {
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	probe := exec.Command(filepath.Join(bin, "postgres"), "--version")
	probe.SysProcAttr, probe.Dir = attr, dir
	if out, err := probe.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cluster: Postgres does not run as root, this system allows no user namespaces, and user %d cannot use %s and %s: %w %s. "+
			"Use a data directory that this user can reach, start as another user, or name a database with --database-url", uid, dir, bin, err, out)
	}
	return attr, nil
}

// unprivileged returns the ids of a user that the system knows: initdb asks for a name.
func unprivileged() (uid, gid int, err error) {
	for _, name := range []string{"postgres", "nobody", "daemon"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err == nil && uid != 0 {
			return uid, gid, nil
		}
	}
	return 0, 0, errors.New("cluster: Postgres does not run as root, and the system has none of the users postgres, nobody, daemon: " +
		"start as another user, or name a database with --database-url")
}
