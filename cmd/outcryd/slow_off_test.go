//go:build !slow

package main

// shortFactor makes random tests shorter, except for those who ask for the slow ones.
const shortFactor = 10
