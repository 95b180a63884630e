package health

import "syscall"

// DiskIsKnown reports whether this system can be asked for room on a disk.
const DiskIsKnown = true

// DiskOf returns the room on the disk of a directory, for those whom the server runs as.
func DiskOf(dir string) Disk {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return Disk{}
	}
	return Disk{s.Blocks * uint64(s.Frsize), s.Bavail * uint64(s.Frsize)}
}
