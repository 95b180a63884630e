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

// Disk is a separate file system, mounted at a directory from a file next to it. It can hang, be filled,
// and be lost. It needs root, and disappears with the mounts of this process.
type Disk struct{ dir, image string }

// NewDisk makes an empty disk of the given size in bytes. Isolate and NewMachines must be called before.
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

// Lose replaces the disk with an empty one of the given size. The disk must not be in use.
func (d *Disk) Lose(bytes int64) error {
	if err := d.Close(); err != nil {
		return err
	}
	return d.make(bytes)
}

// Hang blocks all writes to the disk for a time. The disk resumes by itself, even if this process has ended. done is
// closed when it resumes.
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
		_ = thaw.Wait() // an error cannot be handled here
		close(ended)
	}()
	return ended, nil
}

// filler is the name of the file that fills the disk.
const filler = "filler"

// Fill uses up all free space on the disk, until Clear.
func (d *Disk) Fill() error {
	f, err := os.Create(filepath.Join(d.dir, filler))
	if err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	defer f.Close()
	for size := 64 << 20; size > 0; { // no space for size: try less
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return nil
}

// Clear undoes Fill.
func (d *Disk) Clear() error {
	if err := os.Remove(filepath.Join(d.dir, filler)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("harness: %w", err)
	}
	return nil
}

// Close unmounts the disk, which must not be in use.
func (d *Disk) Close() error { return command("umount", d.dir) }
