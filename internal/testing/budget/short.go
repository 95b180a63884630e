//go:build !race && !full

package budget

const factor, raceFactor = 6, 1
