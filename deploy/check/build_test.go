//go:build deploy || operations

// Package check tests what the project is deployed with in real environments: the image's
// files in an empty root directory, and the Debian package with its unit on a throwaway
// copy of this machine that systemd has booted. It needs root, and the Debian packages
// make, systemd, lintian, adduser and postgresql:
//
//	go test -tags deploy ./deploy/check
//
// With another tag it performs the README, docs/OPERATIONS.md and docs/DEPLOYMENT.md on
// such machines. It then also needs curl, iproute2, netcat-openbsd, openssl, procps, prometheus,
// prometheus-alertmanager, python3, strace and sysstat:
//
//	go test -tags operations ./deploy/check
package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

const (
	repository = "../.."

	// patience is how long tests wait for an expected event. No result depends on its value.
	patience = time.Minute
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "outcry-deploy-")
	if err != nil {
		panic(err)
	}
	built.dir = dir
	status := pgtest.Main(m)
	os.RemoveAll(dir)
	os.Exit(status)
}

// command prepares a program that is killed when this process ends.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// output runs a program that must succeed, and returns its output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", cmd, out)
	return string(out)
}

// makeTarget runs make in the repository.
func makeTarget(t *testing.T, args ...string) {
	t.Helper()
	output(t, command(t, "make", append([]string{"-C", repository}, args...)...))
}

// built holds the folder of the binaries that all tests share.
var built struct {
	once sync.Once
	dir  string
}

// binaries returns a folder with the binaries, built as for a release.
func binaries(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { makeTarget(t, "binaries", "OUT="+built.dir) })
	require.FileExists(t, filepath.Join(built.dir, "outcryd"))
	return built.dir
}

// makePackage makes a Debian package of the binaries in a folder, and returns its path. The package is hardly
// compressed, which saves most of the time.
func makePackage(t *testing.T, binaries, version string) string {
	t.Helper()
	build := command(t, filepath.Join(repository, "deploy/debian/build.sh"), binaries)
	build.Env = append(os.Environ(), "VERSION="+version, "DPKG_DEB_COMPRESSOR_LEVEL=0")
	return strings.TrimSpace(output(t, build))
}
