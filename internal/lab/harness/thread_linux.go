package harness

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownNetwork starts a process in its own network namespace, and with its own mounts.
func ownNetwork(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
}

// FirstProcessors returns the first n processors that this process may use, in the form of taskset. It
// returns "" if this process may use no more than n.
func FirstProcessors(n int) string {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() <= n {
		return ""
	}
	var first []string
	for cpu := 0; len(first) < n; cpu++ {
		if set.IsSet(cpu) {
			first = append(first, strconv.Itoa(cpu))
		}
	}
	return strings.Join(first, ",")
}
