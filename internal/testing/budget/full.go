//go:build full

package budget

const factor, raceFactor = 1, 1
