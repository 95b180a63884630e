package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// asUser returns how to run Postgres's programs on a data directory, which need not exist yet: as the current
// user, unless that is root. See the package comment.
func asUser(data, bin string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	uid, gid, err := unprivileged(data)
	if err != nil {
		return nil, err
	}
	other, namespace := asOther(uid, gid), inNamespace(uid, gid)
	otherErr := probe(bin, other)
	if otherErr == nil {
		return other, nil
	}
	if err := probe(bin, namespace); err != nil {
		return nil, fmt.Errorf("cluster: Postgres does not run as root, and here it can run neither as user %d (%w) nor in "+
			"a user namespace (%w): "+
			"start as another user, or name a database with --database-url", uid, otherErr, err)
	}
	return namespace, nil
}

// asOther returns the attributes to run a program as another user.
func asOther(uid, gid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// inNamespace returns the attributes to run a program in a user namespace in which root has the ids of another
// user.
func inNamespace(uid, gid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: 0, Size: 1}},
	}
}

// probe tries to run and to signal Postgres with attr. Without the right to signal it, root could not stop it,
// and the kernel would not end it with its thread.
func probe(bin string, attr *syscall.SysProcAttr) error {
	cmd := exec.Command(filepath.Join(bin, "postgres"), "--version")
	cmd.SysProcAttr, cmd.Dir, cmd.Env = attr, "/", environment()
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Process.Signal(syscall.Signal(0)) // works for an ended process too, until Wait
	return errors.Join(err, cmd.Wait())
}

// seenAs returns the user id under which a Postgres that runs with attr sees this process.
func seenAs(attr *syscall.SysProcAttr) int {
	for _, m := range attr.UidMappings {
		return m.ContainerID // the map has only root
	}
	return os.Geteuid()
}

// unprivileged returns the ids of the user as whom root runs Postgres: the owner of the data directory, or one
// that the system knows by name, which initdb requires. Data of one of machineUsers is given to ownUser once
// ownUser exists.
func unprivileged(data string) (uid, gid int, err error) {
	owner, group, ownerErr := ownerOf(data)
	if ownerErr == nil && owner != 0 && !slices.Contains(machineUsers, userName(owner)) {
		return owner, group, nil
	}
	if uid, gid, ok := idsOf(ownUser); ok {
		return uid, gid, nil
	}
	if ownerErr == nil && owner != 0 {
		return owner, group, nil
	}
	for _, name := range machineUsers {
		if uid, gid, ok := idsOf(name); ok {
			return uid, gid, nil
		}
	}
	return 0, 0, errors.New("cluster: Postgres does not run as root, and the system has none of the users outcry, " +
		"postgres, nobody, daemon: " +
		"start as another user, or name a database with --database-url")
}

// idsOf returns the ids of a user. ok is false if the user does not exist or is root.
func idsOf(name string) (uid, gid int, ok bool) {
	u, err := osuser.Lookup(name)
	if err != nil {
		return 0, 0, false
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err1, err2) == nil && uid != 0
}
