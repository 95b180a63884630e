package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Disk is a file system of its own at a directory, in a file beside it: it can hang, be
// full and be lost. It needs root, and is gone with the mounts of this process.
type Disk struct{ dir, image string }

// NewDisk makes an empty one of so many bytes. Isolate and NewMachines come before.
func NewDisk(dir string, bytes int64) (*Disk, error) {
	d := &Disk{dir: dir, image: dir + ".disk"}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	return d, d.make(bytes)
}

func (d *Disk) make(bytes int64) error {
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	if err := os.Truncate(d.image, bytes); err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	if err := command("mkfs.ext4", "-q", "-m", "0", d.image); err != nil {
		return err
	}
	return command("mount", "-o", "loop", d.image, d.dir)
}

// Lose takes the disk away, with everything on it, and puts an empty one in its place.
// Nobody uses it.
func (d *Disk) Lose(bytes int64) error {
	if err := d.Close(); err != nil {
		return err
	}
	return d.make(bytes)
}

// Hang stops everything that writes, for a time. It goes on by itself then, also when this
// process has ended. done is closed once it does.
func (d *Disk) Hang(lasts time.Duration) (done <-chan struct{}, err error) {
	ended := make(chan struct{})
	if err := command("fsfreeze", "--freeze", d.dir); err != nil {
		return nil, err
	}
	thaw := exec.Command("sh", "-c", fmt.Sprintf("sleep %.3f; fsfreeze --unfreeze %s", lasts.Seconds(), d.dir))
	if err := thaw.Start(); err != nil {
		return nil, errors.Join(err, command("fsfreeze", "--unfreeze", d.dir))
	}
	go func() {
		_ = thaw.Wait() // there is nothing to do about it
		close(ended)
	}()
	return ended, nil
}

// filler is a file that takes all the room of a full disk.
const filler = "filler"

// Fill leaves no room on the disk, until Clear.
func (d *Disk) Fill() error {
	f, err := os.Create(filepath.Join(d.dir, filler))
	if err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	defer f.Close()
	for size := 64 << 20; size > 0; { // no room for that much; perhaps for less
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return nil
}

// Clear ends what Fill has done.
func (d *Disk) Clear() error {
	if err := os.Remove(filepath.Join(d.dir, filler)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("harness: %w", err)
	}
	return nil
}

// Close takes the disk away. Nobody uses it.
func (d *Disk) Close() error { return command("umount", d.dir) }
