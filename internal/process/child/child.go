// Package child helps a program run another one as its child: it finds outcryd, removes the settings of a server from
// the environment, and lets the child end together with its parent.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FindServer returns the path of the outcryd to run: the named one, the one in this program's directory, or
// the one in the PATH. It returns an error if neither exists.
func FindServer(named string) (string, error) {
	if named != "" {
		return exec.LookPath(named)
	}
	if own, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(own), "outcryd")); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("outcryd")
	if err != nil {
		return "", fmt.Errorf("no outcryd next to this program or in the path: name it with --outcryd: %w", err)
	}
	return found, nil
}

// Environ returns environ without the variables that configure a server, for a child that must not inherit
// them.
func Environ(environ []string) (own []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case strings.HasPrefix(name, "OUTCRY_"), strings.HasPrefix(name, "DATABASE_URL"), name == "NOTIFY_SOCKET",
			name == "WATCHDOG_USEC":
		default:
			own = append(own, v)
		}
	}
	return own
}
