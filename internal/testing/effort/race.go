//go:build race && !full

package effort

const factor, raceFactor = 10, 10
