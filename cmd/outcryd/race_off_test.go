//go:build !race

package main

// raceFactor makes long tests shorter under the race detector, which costs ten times.
const raceFactor = 1
