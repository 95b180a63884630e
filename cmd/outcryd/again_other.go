//go:build !linux

package main

import "errors"

// execSelf says that whoever has started this program has to start it again.
func execSelf([]string) error {
	return errors.New("this system cannot execute the program again: its supervisor has to start it")
}

// rename does nothing: the process did not begin again.
func (f *former) rename() {}

// reap does nothing: the process did not begin again.
func (f *former) reap() {}
