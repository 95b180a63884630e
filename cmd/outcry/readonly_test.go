package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// readOnlyVariable names a directory. The test program mounts it read-only, in its own mount namespace, before
// it runs as outcry.
const readOnlyVariable = "OUTCRY_TEST_READ_ONLY"

// mountReadOnly mounts dir read-only for this process.
func mountReadOnly(dir string) {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}
	if err != nil {
		panic(err)
	}
}

// mustReadOnly is like must, in a process that sees dir mounted read-only. Without the right to mount, it logs
// that and calls must. In both cases nothing in dir may have changed.
func mustReadOnly(t *testing.T, dir string, args ...string) (stdout string) {
	t.Helper()
	before := contents(t, dir)
	attributes := syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), readOnlyVariable+"="+dir, runVariable+"="+strings.Join(args, " "))
	cmd.SysProcAttr = &attributes
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.Process == nil {
		require.ErrorIs(t, err, syscall.EPERM)
		t.Log("no right to mount a file system")
		stdout = must(t, args...)
	} else {
		require.NoError(t, err, "%s%s", out, stderr.String())
		stdout = string(out)
	}
	require.Equal(t, before, contents(t, dir))
	return stdout
}
