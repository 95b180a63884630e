//go:build !race && !full

package budget

const factor, raceFactor = 3, 1
