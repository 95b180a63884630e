package health

import "syscall"

// DiskIsKnown reports whether DiskOf works on this system.
const DiskIsKnown = true

// DiskOf returns the size of the file system of a directory, and the room that an ordinary user may still
// use. It is zero after an error.
func DiskOf(dir string) Disk {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return Disk{}
	}
	return Disk{s.Blocks * uint64(s.Frsize), s.Bavail * uint64(s.Frsize)}
}
