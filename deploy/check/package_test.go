//go:build deploy

package check

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePackageIsTheSameBytesEachTime(t *testing.T) {
	sum := func(path string) [sha256.Size]byte {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return sha256.Sum256(b)
	}
	t.Setenv("DPKG_DEB_COMPRESSOR_LEVEL", "0")
	one, dir := makePackage(t, binaries(t), "1.0"), t.TempDir()
	makeTarget(t, "deb", "OUT="+dir, "VERSION=1.0") // binaries and all
	require.Equal(t, sum(one), sum(filepath.Join(dir, filepath.Base(one))))
	output(t, command(t, "lintian", "--allow-root", "--fail-on=error,warning", one))
}

func TestWithoutATagThePackagesVersionIsOlderThanAnyRelease(t *testing.T) {
	version := strings.TrimSpace(output(t, command(t, "dpkg-deb", "--field", makePackage(t, binaries(t), ""), "Version")))
	output(t, command(t, "dpkg", "--validate-version", version))
	if exec.Command("git", "-C", repository, "describe", "--tags", "--match", "v[0-9]*").Run() != nil {
		output(t, command(t, "dpkg", "--compare-versions", version, "lt", "0.0.1"))
	}
}

func TestTheSandboxOfTheUnitIsTight(t *testing.T) {
	// In tenths: 100 is no protection at all. What is left is the network, which it is for.
	output(t, command(t, "systemd-analyze", "security", "--offline=true", "--threshold=13", repository+"/deploy/systemd/outcryd.service"))
}
