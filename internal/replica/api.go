// Package replica makes one exchange of several machines: a log whose records count once
// a majority has them on disk. It drives package core with goroutines, files and
// connections.
package replica
