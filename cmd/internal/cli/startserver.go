package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// findServer returns the outcryd to run: the one that is named, that beside this program, or
// that of the path.
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
		return "", fmt.Errorf("there is no outcryd beside outcry, nor in the path: name it with --outcryd: %w", err)
	}
	return found, nil
}

// ownEnviron leaves out what sets up a server: it is for another one.
func OwnEnviron(environ []string) (own []string) {
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
