//go:build !linux

package target

import (
	"os/exec"
	"strings"
	"testing"
)

// running returns the processes that have a word in their command line.
func running(_ *testing.T, word string) []string {
	out, _ := exec.Command("pgrep", "-f", word).Output() // an error where there are none
	return strings.Fields(string(out))
}

// runAway is for systems on which it can be killed.
func runAway() { panic("not here") }
