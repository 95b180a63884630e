//go:build !linux

package main

import "errors"

// execSelf returns an error that requests a restart by the supervisor.
func execSelf([]string) error {
	return errors.New("this system cannot restart the program: its supervisor must start it")
}

// rename does nothing: a process never restarts itself on this system.
func (f *former) rename() {}

// reap does nothing: a process never restarts itself on this system.
func (f *former) reap() {}
