package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// OldestMajor is the oldest major version of Postgres that supports the schema.
const OldestMajor = 13

const howToInstall = "install one (Debian, Ubuntu: apt install postgresql; Fedora: dnf install postgresql-server; " +
	"Alpine: apk add postgresql; macOS: brew install postgresql), or name a database with --database-url"

// findBinaries returns a folder with postgres and initdb. It prefers the version that made the data directory;
// without data, the newest installed version. If none fits, it downloads one.
func findBinaries(ctx context.Context, o Options, m machine) (string, error) {
	made, err := madeWith(filepath.Join(o.Dir, "data"))
	if err != nil {
		return "", err
	}
	found := map[int]string{}
	for _, bin := range m.installed() {
		if v := majorOf(bin); v > 0 && found[v] == "" {
			found[v] = bin
		}
	}
	versions := slices.Sorted(maps.Keys(found))
	want := made
	if want == 0 && len(versions) > 0 && versions[len(versions)-1] >= OldestMajor {
		want = versions[len(versions)-1]
	}
	if bin := found[want]; bin != "" {
		return bin, nil
	}
	if want == 0 {
		want = downloadMajor
	}
	o.Log.Info("no suitable Postgres is installed: downloading one", "version", want, "installed", versions)
	bin, err := m.download(ctx, o, want)
	switch {
	case err == nil:
		return bin, nil
	case made != 0:
		return "", fmt.Errorf("cluster: %s was made with Postgres %d, but installed is %s, and a download of %d failed "+
			"(%w): "+
			"install version %d, or move the data to another version with pg_upgrade",
			o.Dir, made, listed(versions), made, err, made)
	default:
		return "", fmt.Errorf("cluster: there is no Postgres server (installed is %s, %d or newer is needed), and a "+
			"download failed (%w): %s",
			listed(versions), OldestMajor, err, howToInstall)
	}
}

// listed formats versions for a message.
func listed(versions []int) string {
	if len(versions) == 0 {
		return "none"
	}
	var all []string
	for _, v := range versions {
		all = append(all, strconv.Itoa(v))
	}
	return "version " + strings.Join(all, ", ")
}

// madeWith returns the major version that made a data directory, or 0 if there is no data directory. Before
// version 10 the major version is the first of two numbers.
func madeWith(data string) (int, error) {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(b)), ".")
	v, err := strconv.Atoi(first)
	if err != nil || v <= 0 {
		return 0, fmt.Errorf("cluster: %s/PG_VERSION has %q, which is not a version", data, b)
	}
	return v, nil
}

// binaryFolders are the folders in which distributions install the server's binaries.
var binaryFolders = []string{
	"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin", "/usr/libexec/postgresql*",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// installed lists folders that may hold the server's binaries.
func installed() []string {
	var all []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		all = append(all, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// A link in the PATH may be the only file there; initdb is in the directory of the link's target.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			all = append(all, filepath.Dir(path))
		}
	}
	for _, pattern := range binaryFolders {
		found, _ := filepath.Glob(pattern) // fails only if the pattern is malformed
		all = append(all, found...)
	}
	return all
}

var versionPattern = regexp.MustCompile(`\) (\d+)`)

// majorOf returns the major version of the server in a folder, or 0 if there is no server.
func majorOf(bin string) int {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return 0
	}
	out, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	match := versionPattern.FindSubmatch(out)
	if err != nil || match == nil {
		return 0
	}
	v, _ := strconv.Atoi(string(match[1])) // the pattern matches digits only
	return v
}
