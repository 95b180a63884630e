//go:build !race

package main

// raceFactor divides the length of long tests under the race detector, which is about ten times slower.
const raceFactor = 1
