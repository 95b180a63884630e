//go:build deploy

package check

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	makeTarget(t, "deb", "OUT="+dir, "VERSION=1.0") // builds the binaries, too
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

// TestLinksOfThePackagedPagesLeadThere follows each link between files of the package's documentation.
func TestLinksOfThePackagedPagesLeadThere(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(root+"/outcry.deb", packageOf(t, binaries(t), "1.0"), 0o600))
	output(t, command(t, "dpkg-deb", "--extract", root+"/outcry.deb", root))
	pages, err := filepath.Glob(root + "/usr/share/doc/outcry/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	links := 0
	require.NoError(t, filepath.WalkDir(root+"/usr/share/doc/outcry", func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			links++
			require.FileExists(t, filepath.Join(filepath.Dir(path), link[1]), path)
		}
		return err
	}))
	require.Greater(t, links, 50)
	unit, err := os.ReadFile(root + "/lib/systemd/system/outcryd.service")
	require.NoError(t, err)
	for _, page := range regexp.MustCompile(`Documentation=file:(\S+)`).FindAllStringSubmatch(string(unit), -1) {
		require.FileExists(t, root+page[1])
	}
	for _, file := range []string{"prometheus/alerts.yml", "prometheus/recording.yml", "prometheus/prometheus.yml",
		"prometheus/alertmanager.yml", "grafana/dashboards/outcry.json"} {
		require.FileExists(t, root+"/usr/share/outcry/"+file)
	}
	for _, file := range []string{"bash-completion/completions/outcry", "zsh/vendor-completions/_outcry",
		"bash-completion/completions/outcry-lab", "zsh/vendor-completions/_outcry-lab",
		"fish/vendor_completions.d/outcry-lab.fish",
		"fish/vendor_completions.d/outcry.fish"} {
		require.FileExists(t, root+"/usr/share/"+file)
	}
}

func TestTheSandboxOfTheUnitIsTight(t *testing.T) {
	// The threshold is in tenths; 100 means no protection. The only remaining exposure is network access, which the
	// service needs.
	output(t, command(t, "systemd-analyze", "security", "--offline=true", "--threshold=13",
		repository+"/deploy/systemd/outcryd.service"))
}
