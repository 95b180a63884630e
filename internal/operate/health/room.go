package health

import (
	"os"
	"runtime/metrics"
)

// Disk is the size of a file system and the room that is available, in bytes. Both are 0 if they are unknown;
// an alert fires on that.
type Disk struct{ Size, Available uint64 }

// MemoryBytes returns how much memory the process has obtained from the operating system.
func MemoryBytes() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// Modified returns when a file was last changed, in seconds since the Unix epoch, or 0 if that is unknown.
func Modified(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(info.ModTime().Unix())
}
