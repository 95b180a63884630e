package health

import (
	"os"
	"runtime/metrics"
)

// Disk is a file system, in bytes. It is 0 if it cannot be asked: an alert then looks at
// it.
type Disk struct{ Size, Available uint64 }

// MemoryBytes returns how much memory the process has of the system.
func MemoryBytes() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// Modified returns when a file was changed, in seconds since the Unix epoch, or 0 if it
// cannot be asked.
func Modified(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(info.ModTime().Unix())
}
