package load

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes the machine in a line: system, processors, kernel, Go version.
func Machine() string {
	text := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	info, _ := os.ReadFile("/proc/cpuinfo") // Linux only
	for line := range strings.Lines(string(info)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			text += " (" + strings.TrimSpace(model) + ")"
			break
		}
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		text += ", kernel " + strings.TrimSpace(string(kernel))
	}
	return text + ", " + runtime.Version()
}
