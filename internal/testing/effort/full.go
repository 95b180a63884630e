//go:build full

package effort

const factor, raceFactor = 1, 1
