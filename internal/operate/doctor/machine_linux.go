package doctor

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kindNames maps magic numbers to the names of file systems: those in kinds, and the usual ones.
var kindNames = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.NFS_SUPER_MAGIC: "nfs",
	unix.SMB_SUPER_MAGIC: "smb", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "smb",
	unix.FUSE_SUPER_MAGIC: "fuse", unix.V9FS_MAGIC: "9p",
	unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2fc12fc1: "zfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs",
	unix.F2FS_SUPER_MAGIC: "f2fs",
}

// diskOf asks the kernel about the file system of a directory.
func diskOf(dir string) (d disk, err error) {
	var s unix.Statfs_t
	var st unix.Stat_t
	if err := unix.Statfs(dir, &s); err != nil {
		return d, os.NewSyscallError("statfs", err)
	}
	if err := unix.Stat(dir, &st); err != nil {
		return d, os.NewSyscallError("stat", err)
	}
	d = disk{kind: kindNames[int64(s.Type)&0xffffffff], size: s.Blocks * uint64(s.Frsize),
		free: s.Bavail * uint64(s.Frsize), inodes: s.Ffree, inodesMax: s.Files}
	if d.kind == "" {
		d.kind = fmt.Sprintf("type 0x%x", s.Type)
	}
	if major := unix.Major(uint64(st.Dev)); major != 0 {
		d.device = fmt.Sprintf("%d:%d", major, unix.Minor(uint64(st.Dev)))
	}
	return d, nil
}

// TimeSyncs writes 4 KiB repeatedly to an unnamed file in dir, syncs after each write, and returns the
// duration of each sync. It makes up to n syncs, and fewer if they take longer than most. The kernel deletes
// the file when the process ends in any way.
func TimeSyncs(dir string, n int, most time.Duration) (took []time.Duration, err error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, os.NewSyscallError("make a file without a name in "+dir, err)
	}
	defer unix.Close(fd)
	block := make([]byte, 4096)
	const blocks = 64
	for i := range blocks { // as in the journal, writes go to blocks that the file system has already allocated
		if _, err := unix.Pwrite(fd, block, int64(i)*int64(len(block))); err != nil {
			return nil, os.NewSyscallError("write", err)
		}
	}
	if err := unix.Fsync(fd); err != nil {
		return nil, os.NewSyscallError("fsync", err)
	}
	begun := time.Now()
	for i := 0; i < n && time.Since(begun) < most; i++ {
		block[0] = byte(i)
		at := time.Now()
		if _, err := unix.Pwrite(fd, block, int64(i%blocks)*int64(len(block))); err != nil {
			return nil, os.NewSyscallError("write", err)
		}
		if err := unix.Fdatasync(fd); err != nil {
			return nil, os.NewSyscallError("fdatasync", err)
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}

// kernelClock asks the kernel whether its clock is synchronized.
func kernelClock() (clockState, error) {
	var t unix.Timex // no mode: nothing is changed
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return clockState{}, os.NewSyscallError("adjtimex", err)
	}
	return clockState{synced: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
		errorMax: time.Duration(t.Maxerror) * time.Microsecond}, nil
}

// openFilesMax returns how many files a process of this user may have open.
func openFilesMax() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return limit.Max, nil // the hard limit, as Go programs raise their soft limit to it
}
