package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

const (
	// downloadMajor is what is downloaded for a new cluster.
	downloadMajor = 17

	// downloadTimeout bounds a download, also one that another process makes.
	downloadTimeout = 5 * time.Minute
)

// downloads are the versions that can be downloaded.
var downloads = map[int]embedded.PostgresVersion{
	13: embedded.V13, 14: embedded.V14, 15: embedded.V15, 16: embedded.V16, 17: embedded.V17, 18: embedded.V18,
}

// download fetches binaries once into a cache, and returns their folder. Several
// processes may call it at once: one downloads, the others wait for it.
func download(ctx context.Context, o Options, major int) (string, error) {
	version, ok := downloads[major]
	if !ok {
		return "", fmt.Errorf("version %d is not on offer", major)
	}
	cache, err := cacheDir(o)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	folder := filepath.Join(cache, "postgres-"+string(version))
	bin := filepath.Join(folder, "bin")
	lock, err := waitForLock(ctx, folder+".lock")
	if err != nil {
		return "", err
	}
	// The library heeds no context. Where it goes on after ctx has ended, it keeps
	// the lock, so that nobody else works on the same folder.
	fetched := make(chan error, 1)
	go func() {
		defer unlock(lock)
		if majorOf(bin) == major {
			fetched <- nil
			return
		}
		fetched <- fetch(version, folder)
	}()
	select {
	case err := <-fetched:
		return bin, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// waitForLock locks a file once nobody else has it.
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

// cacheDir returns the first folder for downloads that can be made: for root one
// that the user of Postgres can read, for others their own.
func cacheDir(o Options) (string, error) {
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
		if err == nil {
			return dir, nil
		}
		all = errors.Join(all, err)
	}
	return "", all
}

// fetch downloads binaries into a folder, under another name until they are
// complete. It replaces what is there.
//
// The library can only start a server as a whole, and not as root. But it fetches
// and unpacks first: a data directory that cannot be made is where it stops.
func fetch(version embedded.PostgresVersion, folder string) error {
	making := folder + ".making"
	if err := errors.Join(os.RemoveAll(making), os.RemoveAll(folder), os.MkdirAll(making, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(making) // where it was not renamed
	port, err := freePort()
	if err != nil {
		return err
	}
	file := filepath.Join(making, "archive", "file")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
		return err
	}
	err = embedded.NewDatabase(embedded.DefaultConfig().Version(version).Port(port).Logger(io.Discard).
		CachePath(filepath.Dir(file)).RuntimePath(filepath.Join(making, "runtime")).BinariesPath(making).
		DataPath(filepath.Join(file, "below-a-file"))).Start()
	if majorOf(filepath.Join(making, "bin")) == 0 {
		return fmt.Errorf("there came no server of it that runs here: %w", err)
	}
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		return err
	}
	return os.Rename(making, folder)
}

// freePort returns a TCP port that nobody listens on: the library asks for one.
func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port), nil
}
