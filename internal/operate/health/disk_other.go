//go:build !linux

package health

// DiskIsKnown reports whether this system can be asked for room on a disk.
const DiskIsKnown = false

// DiskOf returns the room on the disk of a directory, for those whom the server runs as.
func DiskOf(string) Disk { return Disk{} }
