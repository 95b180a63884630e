package harness

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithThread has a process killed when the thread that starts it ends.
func endWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// ownNetwork has a process begin with a network of its own, and mounts that others do not
// see.
func ownNetwork(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
}

// FirstProcessors returns the first n of the processors that this process may use, as taskset has them; "" if it may
// use no more than n.
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
