package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

const (
	// downloadMajor is the major version that is downloaded for a new cluster.
	downloadMajor = 17

	// downloadTimeout bounds a download, and the wait for one by another process.
	downloadTimeout = 5 * time.Minute
)

// downloads are the versions that can be downloaded, by major version.
var downloads = map[int]embedded.PostgresVersion{14: embedded.V14, 15: embedded.V15, 16: embedded.V16, 17: embedded.V17,
	18: embedded.V18}

// source is where binaries are downloaded from. Tests use their own.
type source struct {
	repository string            // URL; "" for the library's default
	cache      string            // folder; "" for that of cacheDir
	checksums  map[string]string // checksums of the archives that may be unpacked, by archiveName
}

// pinned is the source that the program uses.
var pinned = source{checksums: checksums}

// archiveName returns the name of this machine's archive in the library's cache.
func archiveName(version embedded.PostgresVersion) string {
	arch := runtime.GOARCH
	if arch == "arm64" {
		arch = "arm64v8"
	}
	if _, err := os.Stat("/etc/alpine-release"); err == nil && runtime.GOOS == "linux" {
		arch += "-alpine"
	}
	return fmt.Sprintf(archivePrefix+"%s-%s-%s.txz", runtime.GOOS, arch, version)
}

// download fetches binaries into a cache, unless they are there, and returns their folder. Several processes
// may call it at the same time: one downloads, and the others wait. It unpacks only archives listed in
// checksums. As root it does not run the binaries.
func (s source) download(ctx context.Context, o Options, major int) (string, error) {
	version, ok := downloads[major]
	if !ok {
		return "", fmt.Errorf("version %d is not available", major)
	}
	name := archiveName(version)
	sum, ok := s.checksums[name]
	if !ok {
		return "", fmt.Errorf("this program has no checksum of %s, and does not unpack it without one", name)
	}
	cache, err := s.cacheDir(o)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	// The checksum in the name distinguishes this folder from the unverified downloads of former versions.
	folder := filepath.Join(cache, fmt.Sprintf("postgres-%s-%.12s", version, sum))
	bin := filepath.Join(folder, "bin")
	lock, err := waitForLock(ctx, folder+".lock")
	if err != nil {
		return "", err
	}
	// The library ignores contexts. If it is still working when ctx ends, this goroutine keeps the lock, so
	// that no other process uses the same folder.
	fetched := make(chan error, 1)
	go func() {
		defer unlock(lock)
		if holdsServer(bin) {
			fetched <- nil
			return
		}
		fetched <- s.fetch(version, sum, folder)
	}()
	select {
	case err := <-fetched:
		if err == nil && os.Geteuid() != 0 && majorOf(bin) != major { // as root, probe checks the version instead
			err = fmt.Errorf("%s does not run here", bin)
		}
		return bin, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// holdsServer reports whether a folder has the server's programs, without running them.
func holdsServer(bin string) bool {
	for _, name := range []string{"postgres", "initdb"} {
		if info, err := os.Stat(filepath.Join(bin, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// waitForLock waits until no other process holds the lock on a file, and locks it.
func waitForLock(ctx context.Context, path string) (*os.File, error) {
	const poll = 100 * time.Millisecond
	for {
		f, err := lockFile(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
		}
	}
}

// cacheDir returns the first folder for downloads that can be made and that belongs to this user. Root prefers
// one that the user of Postgres can read.
func (s source) cacheDir(o Options) (string, error) {
	if s.cache != "" {
		return s.cache, nil
	}
	var parents []string
	if os.Geteuid() == 0 {
		parents = append(parents, "/var/cache")
	}
	if user, err := os.UserCacheDir(); err == nil {
		parents = append(parents, user)
	}
	parents = append(parents, o.Dir)
	var all error
	for _, parent := range parents {
		dir := filepath.Join(parent, "outcry")
		err := os.MkdirAll(dir, 0o755)
		var owner int
		if err == nil {
			owner, _, err = ownerOf(dir)
		}
		if err == nil && owner == os.Geteuid() {
			return dir, nil
		}
		if err == nil {
			err = fmt.Errorf("%s belongs to user %d", dir, owner)
		}
		all = errors.Join(all, err)
	}
	return "", all
}

// fetch downloads binaries into a folder, under a temporary name until they are complete. It replaces the
// existing folder.
//
// The library can only download, unpack, and make a data directory in one call, in this order, and stops at
// the first step that fails. fetch calls it twice: first with a folder that makes unpacking fail, then, after
// comparing the archive with its checksum, with a data directory that cannot be made. (The library itself
// compares only the checksum that the repository has beside the archive, and ignores a missing one.)
func (s source) fetch(version embedded.PostgresVersion, sum, folder string) error {
	making := folder + ".making"
	if err := errors.Join(os.RemoveAll(making), os.RemoveAll(folder), os.MkdirAll(making, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(making) // does nothing after the rename
	port, err := freePort()
	if err != nil {
		return err
	}
	cache, file := filepath.Join(making, "archive"), filepath.Join(making, "file")
	nowhere := filepath.Join(making, "nowhere")
	if err := errors.Join(os.Mkdir(cache, 0o755), os.WriteFile(file, nil, 0o600),
		os.Symlink("absent", nowhere)); err != nil {
		return err
	}
	config := embedded.DefaultConfig().Version(version).Port(port).Logger(io.Discard).CachePath(cache).
		RuntimePath(filepath.Join(making, "runtime")).DataPath(filepath.Join(file, "below-a-file"))
	if s.repository != "" {
		config = config.BinaryRepositoryURL(s.repository)
	}
	err = embedded.NewDatabase(config.BinariesPath(filepath.Join(nowhere, "below-a-dead-link"))).Start()
	archive := filepath.Join(cache, archiveName(version))
	b, readErr := os.ReadFile(archive)
	if errors.Is(readErr, fs.ErrNotExist) {
		return fmt.Errorf("no archive arrived: %w", err)
	}
	if readErr != nil {
		return readErr
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
		return fmt.Errorf("%s was downloaded with the checksum %s instead of %s: it was not unpacked",
			filepath.Base(archive), got, sum)
	}
	unpacked := filepath.Join(making, "unpacked")
	err = embedded.NewDatabase(config.BinariesPath(unpacked)).Start()
	if !holdsServer(filepath.Join(unpacked, "bin")) {
		return fmt.Errorf("no server in %s: %w", filepath.Base(archive), err)
	}
	return os.Rename(unpacked, folder)
}

// freePort returns a free TCP port, which the library requires.
func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port), nil
}
