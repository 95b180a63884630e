//go:build !linux

package doctor

import (
	"errors"
	"time"
)

// errNotLinux is the error of checks that need Linux.
var errNotLinux = errors.New("this check is for Linux")

func diskOf(string) (disk, error)      { return disk{}, errNotLinux }
func kernelClock() (clockState, error) { return clockState{}, errNotLinux }
func openFilesMax() (uint64, error)    { return 0, errNotLinux }

// TimeSyncs returns an error: it needs Linux.
func TimeSyncs(string, int, time.Duration) ([]time.Duration, error) { return nil, errNotLinux }
