//go:build !linux

package main

import "errors"

// execSelf says that a supervisor has to start this program again.
func execSelf([]string) error {
	return errors.New("this system cannot execute the program again: its supervisor has to start it")
}

// rename does nothing: the process did not begin again.
func (f *former) rename() {}

// reap does nothing: the process did not begin again.
func (f *former) reap() {}
