// Package onerun lets all test programs of one `go test` command share what is costly to make, such as a program
// that tests start. The command removes it at its end, together with its other temporary files.
package onerun

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// workPrefix begins the name of the temporary directory of a `go test` command. Each test program is in a directory
// of its own there.
const workPrefix = "go-build"

// own is the directory of a test program that `go test` did not start. Nothing is shared then.
var own struct {
	mu  sync.Mutex
	dir string
}

// Make returns the path of a file or directory of this name. If no test program of the command has made it, make
// makes it at the given path. Names may contain slashes: what has the same parent is in one directory. Test programs
// may call Make at once: one makes it, and the others wait. They must not change it.
func Make(name string, make func(path string) error) (path string, err error) {
	dir, err := directory()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	defer func() { _ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN) }() // a child process may hold a copy of the file
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	making := path + ".making"
	if err := os.RemoveAll(making); err != nil { // a killed test program has left it
		return "", err
	}
	if err := make(making); err != nil {
		return "", err
	}
	return path, os.Rename(making, path)
}

// Remove removes what a test program that `go test` did not start has made. TestMain calls it at the end.
func Remove() error {
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.dir == "" {
		return nil
	}
	return os.RemoveAll(own.dir)
}

// directory returns the directory of what is shared.
func directory() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	work := filepath.Dir(filepath.Dir(program))
	if !strings.HasPrefix(filepath.Base(work), workPrefix) {
		return ownDirectory()
	}
	dir := filepath.Join(work, "onerun")
	err = os.MkdirAll(dir, 0o755)
	if errors.Is(err, fs.ErrPermission) { // another user has started the command
		dir = filepath.Join(os.TempDir(), "outcry-"+filepath.Base(work))
		err = os.MkdirAll(dir, 0o755)
	}
	return dir, err
}

// ownDirectory makes the directory of this test program on the first call.
func ownDirectory() (dir string, err error) {
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.dir == "" {
		own.dir, err = os.MkdirTemp("", "outcry-onerun-")
	}
	return own.dir, err
}
