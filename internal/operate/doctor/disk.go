package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
)

// disk describes the file system of a directory.
type disk struct {
	kind       string // tmpfs, overlay, ext4, …; a number if the name is unknown
	size, free uint64 // in bytes
	inodes     uint64 // free inodes; 0 with inodesMax 0 if the file system does not count them
	inodesMax  uint64
	device     string // number of the block device, such as 8:1; "" if it is not known
}

const (
	// roomMin is the free room that the journal and Postgres need to start. roomLow is what they need for a
	// while, including a journal that grows while Postgres is away for a few minutes.
	roomMin = 256 << 20
	roomLow = 4 << 30

	// A sync of a few KiB in less than syncHonest cannot have reached a disk. A sync that takes longer than syncSlow
	// makes replies slow.
	syncHonest = 15 * time.Microsecond
	syncSlow   = 20 * time.Millisecond

	// syncCount is how many syncs are timed. Fewer are timed if they take longer than syncMost together.
	syncCount = 300
	syncMost  = 3 * time.Second
)

// existing returns the data directory, or the nearest directory above it that exists.
func (e *examination) existing() string {
	dir, err := filepath.Abs(e.Data)
	if err != nil {
		return e.Data
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// checkDirectory checks the owner and the mode of the data directory, and that no restore into it is
// unfinished.
func (e *examination) checkDirectory() {
	info, err := os.Stat(e.Data)
	if errors.Is(err, fs.ErrNotExist) {
		e.found("directory", OK, "", "%s does not exist; the first start creates it", e.Data)
		return
	}
	if err != nil {
		e.found("directory", Bad, "make it a directory that the server's user can enter", "%v", err)
		return
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	mode := info.Mode().Perm()
	unfinished := backup.Unfinished(e.Data)
	_, restoring := errors.AsType[*backup.UnfinishedError](unfinished)
	switch {
	case !info.IsDir():
		e.found("directory", Bad, "name a directory with --data", "%s is not a directory", e.Data)
	case restoring:
		e.found("directory", Bad, "run outcry restore there again", "%v", unfinished)
	case int(owner) != os.Geteuid():
		e.found("directory", Warn, fmt.Sprintf("run outcry doctor as user %d, so that it sees what the server sees", owner),
			"%s belongs to user %d, this is user %d", e.Data, owner, os.Geteuid())
	case mode&0o700 != 0o700:
		e.found("directory", Bad, "chmod u+rwx "+e.Data, "%s has the mode %04o: its owner cannot use it", e.Data, mode)
	case unfinished != nil: // after the cases that name a cause
		e.found("directory", Bad, "make it a directory that the server's user can enter", "%v", unfinished)
	default:
		e.found("directory", gradeIf(mode&0o007 != 0, Warn), "chmod o= "+e.Data, "%s belongs to user %d, mode %04o", e.Data,
			owner, mode)
	}
}

// kinds lists the file systems that have a problem, with the advice.
var kinds = map[string]struct {
	grade  Grade
	advice string
}{
	"tmpfs":   {Bad, "it is in memory, and lost at the machine's next start: put the data directory on a disk"},
	"ramfs":   {Bad, "it is in memory, and lost at the machine's next start: put the data directory on a disk"},
	"overlay": {Warn, "it is a container's layer, deleted with the container: put the data directory on a volume"},
	"nfs": {Warn,
		"locks and syncs depend on the server and its options: use a local disk, or --ack postgres with a database " +
			"elsewhere"},
	"smb": {Warn,
		"locks and syncs depend on the server and its options: use a local disk, or --ack postgres with a database " +
			"elsewhere"},
	"fuse": {Warn, "whether a sync reaches a disk depends on its program: use a local disk"},
	"9p":   {Warn, "whether a sync reaches a disk depends on the host: use a disk of the machine's own"},
	"btrfs": {Warn,
		"it copies on write, so a full disk refuses cancels as well as orders, and can fail a sync, which ends outcryd: " +
			"keep room, or use ext4 or xfs"},
	"zfs": {Warn,
		"it copies on write, so a full disk refuses cancels as well as orders, and can fail a sync, which ends outcryd: " +
			"keep room, or use ext4 or xfs"},
}

// checkDisk checks the file system of the data directory and its free room.
func (e *examination) checkDisk() {
	dir := e.existing()
	d, err := e.machine.disk(dir)
	if err != nil {
		e.unknown("file system", err)
		return
	}
	about := kinds[d.kind]
	if about.grade == "" {
		about.grade = OK
	}
	e.found("file system", about.grade, about.advice, "%s, of %s", d.kind, dir)
	grade, part := OK, 100.0
	if d.size > 0 {
		part = 100 * float64(d.free) / float64(d.size)
	}
	switch {
	case d.free < roomMin || d.inodesMax > 0 && d.inodes < 100:
		grade = Bad
	case d.free < roomLow || part < 10 || d.inodesMax > 0 && d.inodes < d.inodesMax/100:
		grade = Warn
	}
	e.found("room", grade,
		fmt.Sprintf("make room: orders are refused when the disk is full, and below %s little is left for a journal that "+
			"Postgres does not follow", bytesOf(roomLow)),
		"%s free of %s (%.0f %%), %d of %d inodes", bytesOf(d.free), bytesOf(d.size), part, d.inodes, d.inodesMax)
}

// checkSync times small synced writes.
func (e *examination) checkSync() {
	dir := e.existing()
	took, err := e.machine.sync(dir, syncCount, syncMost)
	if err != nil || len(took) == 0 {
		e.unknown("disk sync", errors.Join(err, errors.New("no write could be timed in "+dir)))
		return
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	grade, advice := OK, ""
	switch {
	case p50 < syncHonest:
		grade, advice = Bad,
			"no disk is that fast: the file system is in memory, or something between it and the disk ignores syncs (a virtual "+
				"machine's cache=unsafe, a mount with nobarrier); answered commands would be lost in a power cut"
	case p99 > syncSlow:
		grade, advice = Warn, "every reply waits for a sync: use a faster disk, or one with a capacitor, or one of its own"
	}
	e.found("disk sync", grade, advice, "p50 %s, p99 %s, of %d synced writes of 4 KiB in %s", shown(p50), shown(p99),
		len(took), dir)
	e.checkCache(dir, p50)
}

// checkCache checks whether the kernel flushes the device's write cache.
func (e *examination) checkCache(dir string, p50 time.Duration) {
	d, err := e.machine.disk(dir)
	if err != nil || d.device == "" {
		return
	}
	queue := "/sys/dev/block/" + d.device + "/queue/"
	cache, err := e.readText(queue + "write_cache")
	if err != nil { // the queue of a partition is that of the device, one level up
		queue = "/sys/dev/block/" + d.device + "/../queue/"
		cache, err = e.readText(queue + "write_cache")
	}
	if err != nil {
		return // the file system is not on a block device of its own
	}
	grade := gradeIf(cache == "write through" && p50 < 100*time.Microsecond, Warn)
	e.found("write cache", grade,
		"the kernel does not flush this device, and it answers faster than most media write: make sure that its cache "+
			"survives a power cut, "+
			"or set it to write back in "+queue+"write_cache", "the kernel treats the device's cache as %q", cache)
}

// shown rounds a duration to three digits.
func shown(d time.Duration) string {
	for unit := time.Nanosecond; ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}

// checkJournal reads the last segment of the journal.
func (e *examination) checkJournal() {
	dir := filepath.Join(e.Data, "journal")
	there, err := journal.Exists(dir)
	if err == nil && !there {
		e.found("journal", OK, "", "there is none yet in %s", dir)
		return
	}
	var seq uint64
	if err == nil {
		_, seq, err = journal.Newest(dir, exchange.EventVersion)
	}
	if _, newer := errors.AsType[*journal.VersionError](err); newer {
		e.found("journal", Bad, "use the version of outcry that the server has", "%v", err)
		return
	}
	if errors.Is(err, fs.ErrPermission) {
		e.found("journal", Warn, "run outcry doctor as the server's user, or as root", "not known: %v", err)
		return
	}
	if err != nil {
		e.found("journal", Bad, "stop the server and run outcry verify; see docs/RELIABILITY.md", "%v", err)
		return
	}
	e.found("journal", OK, "", "its last segment is readable, up to record %d", seq)
}
