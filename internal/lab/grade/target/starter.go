package target

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// begin is the main function of a starter: it becomes the shell that runs the server's command, as
// another user, within the limits and without the kit's open files. It returns only on an error.
func begin(s spec) error {
	runtime.LockOSThread() // some settings below belong to the thread, which then executes the shell
	uid := os.Getuid()
	if s.UID >= 0 {
		uid = s.UID
	}
	if err := closeFiles(); err != nil {
		return err
	}
	endFirst()
	for _, l := range []struct {
		name     string
		resource int
		most     uint64
	}{
		{"core files", unix.RLIMIT_CORE, 0},
		{"open files", unix.RLIMIT_NOFILE, s.Limits.Files},
		{"bytes of a file", unix.RLIMIT_FSIZE, s.Limits.FileSize},
		{"processes", unix.RLIMIT_NPROC, threadsOf(uid) + s.Limits.Processes},
		{"bytes of memory", unix.RLIMIT_DATA, s.Limits.Memory},
	} {
		if err := limit(l.resource, l.most); err != nil {
			return fmt.Errorf("grade: limit %s to %d: %w", l.name, l.most, err)
		}
	}
	if s.UID >= 0 {
		if err := become(s.UID, s.GID); err != nil {
			return err
		}
	}
	if err := forgoPrivileges(); err != nil {
		return err
	}
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("grade: user %d: %w", uid, err)
	}
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", s.Command}, os.Environ())
	return fmt.Errorf("grade: execute /bin/sh: %w", err)
}

// closeFiles marks all files except the first three to be closed when this process executes another
// program. Some may be inherited from the program that started the kit.
func closeFiles() error {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("grade: find open files: %w", err)
	}
	for _, file := range open {
		if n, err := strconv.Atoi(filepath.Base(file.Name())); err == nil && n > 2 {
			syscall.CloseOnExec(n) // the folder's own descriptor is among them, but is closed already
		}
	}
	return nil
}

// limit sets a resource limit, unless the current one is lower.
func limit(resource int, most uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	most = min(most, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
}

// become changes this process to another user, with one group only.
func become(uid, gid int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("grade: leave all groups: %w", err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("grade: become group %d: %w", gid, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("grade: become user %d: %w", uid, err)
	}
	return nil
}
