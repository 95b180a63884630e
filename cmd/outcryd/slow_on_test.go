//go:build slow || race

package main

// shortFactor makes random tests shorter, but for those who ask for the slow ones.
const shortFactor = 1
