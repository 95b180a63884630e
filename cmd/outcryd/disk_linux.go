package main

import "syscall"

// diskIsKnown reports whether this system can be asked for room on a disk.
const diskIsKnown = true

func diskOf(dir string) disk {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return disk{}
	}
	return disk{s.Blocks * uint64(s.Frsize), s.Bavail * uint64(s.Frsize)}
}
