//go:build !linux

package target

import (
	"os/exec"
	"strings"
	"testing"
)

// running returns the processes that have a word in their command line.
func running(_ *testing.T, word string) []string {
	out, _ := exec.Command("pgrep", "-f", word).Output() // pgrep fails if it finds none
	return strings.Fields(string(out))
}

// runAway is only implemented on systems on which such a process can be killed.
func runAway() { panic("not here") }
