//go:build !linux

package health

// DiskIsKnown reports whether DiskOf works on this system.
const DiskIsKnown = false

// DiskOf returns zero on this system.
func DiskOf(string) Disk { return Disk{} }
