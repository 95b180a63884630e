//go:build race && !slow

package effort

const factor = 10
