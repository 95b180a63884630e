package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
	"golang.org/x/sys/unix"
)

// oldest is the first major version of Postgres that has all that the schema uses.
const oldest = 13

// lookup finds binaries: what differs between machines, and what tests replace.
var lookup = struct {
	installed func() []string
	download  func(o Options) (bin string, err error)
}{installed, download}

// errNoBinaries says what to do where there are none.
var errNoBinaries = errors.New("cluster: no Postgres server is installed. Install one (Debian, Ubuntu: apt install postgresql; " +
	"Fedora: dnf install postgresql-server; macOS: brew install postgresql), or name a database with --database-url")

// findBinaries returns a folder with postgres and initdb: of the version that the
// data directory was made with, else of the newest that is installed, else
// downloaded.
func findBinaries(o Options) (string, error) {
	made, err := madeWith(filepath.Join(o.Dir, "data"))
	if err != nil {
		return "", err
	}
	best, bestVersion := "", 0
	var seen []string
	for _, bin := range lookup.installed() {
		v := major(bin)
		if v == 0 {
			continue
		}
		seen = append(seen, strconv.Itoa(v))
		if v == made || made == 0 && v >= oldest && v > bestVersion {
			best, bestVersion = bin, v
		}
	}
	if best != "" {
		return best, nil
	}
	o.Log.Info("no fitting Postgres is installed: downloading one")
	bin, err := lookup.download(o)
	if err != nil {
		return "", fmt.Errorf("%w (a download failed: %w)", errNoBinaries, err)
	}
	if v := major(bin); made != 0 && v != made {
		seen = append(seen, strconv.Itoa(v))
		return "", fmt.Errorf("cluster: %s was made with Postgres %d, and there is only version %s: install version %d, or move the data with pg_upgrade",
			o.Dir, made, strings.Join(seen, ", "), made)
	}
	return bin, nil
}

// madeWith returns the major version that a data directory was made with, 0
// where there is no data directory.
func madeWith(data string) (int, error) {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("cluster: %s/PG_VERSION says %q, which is no version", data, b)
	}
	return v, nil
}

// installed lists folders that may hold the server's binaries, without repetition.
func installed() []string {
	var all []string
	add := func(dir string) {
		if dir, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		add(strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			add(filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin", "/usr/libexec/postgresql*",
		"/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		for _, dir := range found {
			add(dir)
		}
	}
	return all
}

var versionPattern = regexp.MustCompile(`\) (\d+)`)

// major returns the major version of the server in a folder, 0 where there is none.
func major(bin string) int {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return 0
	}
	out, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	match := versionPattern.FindSubmatch(out)
	if err != nil || match == nil {
		return 0
	}
	v, _ := strconv.Atoi(string(match[1]))
	return v
}

// download fetches binaries once into the user's cache, or below the cluster's
// directory where there is no cache.
//
// The library that does it can only start a server as a whole, which it cannot as
// root. It fetches and unpacks before it initializes: a data directory that
// cannot be is where it stops.
func download(o Options) (string, error) {
	const version = embedded.V17
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = o.Dir
	}
	root := filepath.Join(cache, "outcry", "postgres-"+string(version))
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	// Several processes may want them at once, the tests of several packages among
	// them; half of the files look like all of them.
	lock, err := os.OpenFile(filepath.Join(root, "LOCK"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", root, err)
	}
	if major(bin) > 0 {
		return bin, nil
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	nowhere := filepath.Join(root, "nowhere")
	if err := os.WriteFile(nowhere, nil, 0o600); err != nil {
		return "", err
	}
	err = embedded.NewDatabase(embedded.DefaultConfig().Version(version).Port(port).Logger(io.Discard).
		CachePath(root).RuntimePath(filepath.Join(root, "runtime")).BinariesPath(root).
		DataPath(filepath.Join(nowhere, "data"))).Start()
	if major(bin) > 0 {
		return bin, nil
	}
	return "", err
}

// freePort returns a port that nobody listens on: the library asks for one.
func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port), nil
}
