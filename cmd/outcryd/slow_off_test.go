//go:build !slow

package main

// shortFactor divides the length of random tests, except with -tags slow.
const shortFactor = 20
