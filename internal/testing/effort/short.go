//go:build !race && !full

package effort

const factor, raceFactor = 3, 1
