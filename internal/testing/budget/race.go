//go:build race && !full

package budget

const factor, raceFactor = 10, 10
