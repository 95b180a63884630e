//go:build deploy

// Package check tries what the project is deployed with, with the real thing: the
// image's files in an empty root directory, the Debian package and its unit on a
// throwaway copy of this machine that systemd has booted. It needs root, and the
// Debian packages make, systemd, lintian, adduser and postgresql:
//
//	go test -tags deploy ./deploy/check
package check

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/postgres/pgtest"
)

const (
	repository = "../.."

	// patience is how long tests wait for what must come. Nothing depends on its value.
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

// command prepares a program that ends with this one.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// output runs a program that must succeed, and returns what it prints.
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

// built is where the binaries are that all tests share.
var built struct {
	once sync.Once
	dir  string
}

// binaries returns a folder with the binaries as they are released.
func binaries(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { makeTarget(t, "binaries", "OUT="+built.dir) })
	require.FileExists(t, filepath.Join(built.dir, "outcryd"))
	return built.dir
}

// makePackage makes a Debian package of those binaries, and returns its path. It is
// hardly compressed, which saves most of the time.
func makePackage(t *testing.T, version string) string {
	t.Helper()
	build := command(t, filepath.Join(repository, "deploy/debian/build.sh"), binaries(t))
	build.Env = append(os.Environ(), "VERSION="+version, "DPKG_DEB_COMPRESSOR_LEVEL=0")
	return strings.TrimSpace(output(t, build))
}

func TestThePackageIsTheSameBytesEachTime(t *testing.T) {
	sum := func(path string) [sha256.Size]byte {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return sha256.Sum256(b)
	}
	t.Setenv("DPKG_DEB_COMPRESSOR_LEVEL", "0")
	one, dir := makePackage(t, "1.0"), t.TempDir()
	makeTarget(t, "deb", "OUT="+dir, "VERSION=1.0") // binaries and all
	require.Equal(t, sum(one), sum(filepath.Join(dir, filepath.Base(one))))
	output(t, command(t, "lintian", "--allow-root", "--fail-on=error,warning", one))
}

func TestWithoutATagThePackagesVersionIsOlderThanAnyRelease(t *testing.T) {
	version := strings.TrimSpace(output(t, command(t, "dpkg-deb", "--field", makePackage(t, ""), "Version")))
	output(t, command(t, "dpkg", "--validate-version", version))
	if exec.Command("git", "-C", repository, "describe", "--tags", "--match", "v[0-9]*").Run() != nil {
		output(t, command(t, "dpkg", "--compare-versions", version, "lt", "0.0.1"))
	}
}

func TestTheSandboxOfTheUnitIsTight(t *testing.T) {
	// In tenths: 100 is no protection at all. What is left is the network, which it is for.
	output(t, command(t, "systemd-analyze", "security", "--offline=true", "--threshold=13", repository+"/deploy/systemd/outcryd.service"))
}
