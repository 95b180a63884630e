package client_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheReadmePrintsWhatItSays runs the program of README.md unchanged, in a separate module that requires
// only this one, without access to any other module.
func TestTheReadmePrintsWhatItSays(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	prints := regexp.MustCompile("(?s)```text\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, program)
	require.NotNil(t, prints)
	x := startExchange(t)
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	path, err := exec.Command("go", "list", "-m").Output()
	require.NoError(t, err)
	ours := strings.TrimSpace(string(path))
	dir, modules := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), program[1], 0o600))
	for _, args := range [][]string{{"mod", "init", "trade"},
		{"mod", "edit", "-replace", ours + "=" + root, "-require", ours + "@v0.0.0"}, {"build", "-o", "trade"}} {
		command := exec.Command("go", args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off", "GOPROXY=off",
			"GOMODCACHE="+modules)
		out, err := command.CombinedOutput()
		require.NoError(t, err, "go %q: %s", args, out)
	}
	downloaded, err := filepath.Glob(filepath.Join(modules, "*"))
	require.NoError(t, err)
	require.Subset(t, []string{filepath.Join(modules, "cache")}, downloaded, "modules are beside the folder of locks")
	require.NoDirExists(t, filepath.Join(modules, "cache", "download"))
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	trade := exec.CommandContext(ctx, filepath.Join(dir, "trade"))
	trade.Env = append(os.Environ(), "OUTCRY_ADDR="+x.addr)
	trade.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := trade.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, string(prints[1]), string(out))
}
