package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/exchangetest"
)

// diskVariable turns the test program into the holder of a small disk. It mounts the disk at the path in the variable,
// visible to no other process, and keeps it until its standard input ends.
const diskVariable = "OUTCRY_TEST_DISK"

// diskBytes is the size of the small disk: sixteen segments of the minimum size.
const diskBytes = 1 << 20

// holdDisk is the main function of the holder.
func holdDisk(path string) {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("outcry", path, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes))
	}
	if err != nil {
		fmt.Println("no mount:", err)
		return
	}
	fmt.Println("mounted")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// smallDisk is a file system that a test fills and frees.
type smallDisk struct {
	dir string
	// real is false if the machine does not permit mounts. Then, instead of filling the disk, the test puts dangling
	// links under the names that new segments would get.
	real    bool
	ballast *os.File
	filled  int64
}

// newSmallDisk mounts a small disk in a mount namespace of its own, which disappears with the test even if the test is
// killed. Running as root, it needs no user namespace.
func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	path := t.TempDir()
	attributes := []syscall.SysProcAttr{{Cloneflags: syscall.CLONE_NEWNS}, {
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}}
	for i := range attributes {
		if holder := mountSmallDisk(t, path, &attributes[i]); holder != 0 {
			return &smallDisk{dir: fmt.Sprintf("/proc/%d/root%s", holder, path), real: true}
		}
	}
	t.Log("no right to mount a file system: names that are taken stand for a full one")
	return &smallDisk{dir: path}
}

// mountSmallDisk starts the holder and returns its process id, or 0 if it is not permitted to mount.
func mountSmallDisk(t *testing.T, path string, attributes *syscall.SysProcAttr) int {
	t.Helper()
	attributes.Pdeathsig = syscall.SIGKILL
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), diskVariable+"="+path)
	cmd.SysProcAttr = attributes
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	if err := cmd.Start(); err != nil {
		require.ErrorIs(t, err, syscall.EPERM)
		return 0
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	if line != "mounted\n" {
		return 0
	}
	return cmd.Process.Pid
}

// fill uses up all free space and returns how many bytes it used, or how many names if the disk is not real.
func (d *smallDisk) fill(t *testing.T) (took int64) {
	t.Helper()
	if !d.real {
		return d.plant(t)
	}
	if d.ballast == nil {
		f, err := os.Create(filepath.Join(d.dir, "ballast"))
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		d.ballast = f
	}
	for block := make([]byte, 4096); ; {
		n, err := d.ballast.WriteAt(block, d.filled)
		d.filled, took = d.filled+int64(n), took+int64(n)
		if err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			return took
		}
	}
}

// plant occupies the temporary names of the next segments with dangling links, and returns how many it added.
func (d *smallDisk) plant(t *testing.T) (took int64) {
	t.Helper()
	journal := filepath.Join(d.dir, "journal")
	require.NoError(t, os.MkdirAll(journal, 0o700))
	names := []string{"first"}
	for n := range 400 {
		names = append(names, "next-"+strconv.Itoa(n))
	}
	for _, name := range names {
		err := os.Symlink("nowhere", filepath.Join(journal, name+".tmp"))
		if err == nil {
			took++
		} else {
			require.ErrorIs(t, err, os.ErrExist)
		}
	}
	return took
}

// free undoes fill.
func (d *smallDisk) free(t *testing.T) {
	t.Helper()
	if d.real {
		d.filled = 0
		require.NoError(t, d.ballast.Truncate(0))
		return
	}
	planted, err := filepath.Glob(filepath.Join(d.dir, "journal", "*.tmp"))
	require.NoError(t, err)
	for _, name := range planted {
		if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
			require.NoError(t, os.Remove(name))
		}
	}
}

// transactions returns a request of account 1.
func transactions(children string) string {
	return `<transactions id="1">` + children + `</transactions>`
}

const (
	anOrder    = `<order sym="S" amount="1" limit="0.01"/>`
	noRoom     = "the exchange accepts nothing new: its disk has no room for the journal; cancel and query still work"
	reserveOut = "cannot be canceled now: the disk has no room for the journal, and the reserve for cancels is used " +
		"up; query still works"
)

// onSmallDisk is a server whose data directory is on a small disk, with its only client and the orders that this client
// has placed.
type onSmallDisk struct {
	*program
	t        *testing.T
	disk     *smallDisk
	flags    []string
	client   *conn
	open     []string // ids of open orders
	canceled []string // ids of canceled orders
}

func (s *onSmallDisk) start() {
	s.t.Helper()
	s.program = start(s.t, s.flags...)
	s.client = dial(s.t, s.xml)
}

// ask sends elements as account 1 and returns the answer to each.
func (s *onSmallDisk) ask(children string) []wire.Answer {
	s.t.Helper()
	answers, err := wire.ParseReply([]byte(s.client.must(s.t, transactions(children))))
	require.NoError(s.t, err)
	return answers
}

// order sends a hundred orders and reports whether all were refused because the disk is full.
func (s *onSmallDisk) order() (refused bool) {
	s.t.Helper()
	refused = true
	for _, a := range s.ask(strings.Repeat(anOrder, 100)) {
		if a.Kind == "opened" {
			s.open, refused = append(s.open, a.ID), false
			continue
		}
		require.Equal(s.t, noRoom, a.Error)
	}
	return refused
}

// becomeFull fills the disk and trades until orders are refused. During that time the server deletes segments that
// the database no longer needs; becomeFull fills their space too.
func (s *onSmallDisk) becomeFull() {
	s.t.Helper()
	s.until("the disk is full", func() bool {
		took := s.disk.fill(s.t)
		segments, err := filepath.Glob(filepath.Join(s.disk.dir, "journal", "*.seg"))
		require.NoError(s.t, err)
		return s.order() && took == 0 && len(segments) == 1 && s.disk.fill(s.t) == 0
	})
}

// until polls done until it is true. done may fail the test, so it runs in the test's goroutine.
func (s *onSmallDisk) until(what string, done func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		require.True(s.t, time.Now().Before(deadline), "waiting until %s; log: %s", what, s.log)
	}
}

// get requests a path of the HTTP side and returns the status and body.
func (s *onSmallDisk) get(path string) (int, string) {
	s.t.Helper()
	r, err := http.Get("http://" + s.http + path)
	require.NoError(s.t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(s.t, err)
	return r.StatusCode, string(b)
}

// metric returns the value of a gauge.
func (s *onSmallDisk) metric(name string) (value float64) {
	s.t.Helper()
	_, page := s.get("/metrics")
	_, rest, found := strings.Cut(page, "\n"+name+" ")
	require.True(s.t, found, name)
	_, err := fmt.Sscan(rest, &value)
	require.NoError(s.t, err)
	return value
}

// askAll sends one element of this kind for each id.
func (s *onSmallDisk) askAll(kind string, ids []string) []wire.Answer {
	s.t.Helper()
	var children strings.Builder
	for _, id := range ids {
		children.WriteString("<" + kind + ` id="` + id + `"/>`)
	}
	answers := s.ask(children.String())
	require.Len(s.t, answers, len(ids))
	return answers
}

// compare queries every order in s.open and s.canceled and checks its state.
func (s *onSmallDisk) compare() {
	s.t.Helper()
	for i, a := range s.askAll("query", s.open) {
		require.Equal(s.t, wire.Answer{Kind: "status", ID: s.open[i], Open: "1"}, a)
	}
	for i, a := range s.askAll("query", s.canceled) {
		require.Equal(s.t, "1", a.Canceled, "order %s", s.canceled[i])
	}
}

// TestADiskThatFillsUpForReal runs the program on a small disk through a first start, trading, cancels and restarts
// while the disk is full.
func TestADiskThatFillsUpForReal(t *testing.T) {
	t.Parallel()
	disk, database := newSmallDisk(t), exchangetest.NewTables(t)
	s := &onSmallDisk{t: t, disk: disk,
		flags: []string{"--data=" + disk.dir, "--database-url=" + database, "--segment=65536"}}

	disk.fill(t)
	require.Contains(t, launch(t, s.flags...).fails(t), "make the first segment in "+disk.dir, "there is no room to begin")
	disk.free(t)
	s.start()
	s.client.must(t, opening)
	for range 12 { // more orders than one segment has room to cancel
		require.False(t, s.order())
	}
	s.becomeFull()
	s.refusesWhatIsNew()
	s.usesItsReserve()
	s.compare()

	s.kill()
	s.start() // while the disk is still full
	s.compare()
	s.until("orders are refused", s.order)
	s.cancel(len(s.open))
	require.NotEmpty(t, s.open, "the reserve was used up before")

	disk.free(t)
	s.until("orders resume by themselves", func() bool { return !s.order() })
	code, _ := s.get("/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, 1.0, s.metric("outcry_journal_room"))
	require.Equal(t, 0, s.cancel(10), "and so do cancels")
	s.compare()
	s.becomeFull()
	s.stop(t) // a clean stop needs no disk space
	s.start()
	s.compare()
	s.stop(t)
	conserved(t, database)
}

// refusesWhatIsNew checks every operation that a full disk forbids or still allows.
func (s *onSmallDisk) refusesWhatIsNew() {
	s.t.Helper()
	for frame, want := range map[string]string{
		`<create><account id="3" balance="1"/></create>`: `<error id="3">` + noRoom + `</error>`,
		`<create><symbol sym="NEW"/></create>`:           `<error sym="NEW">` + noRoom + `</error>`,
		`<create><symbol sym="S"><account id="1">1</account></symbol></create>`: `<error sym="S" id="1">` + noRoom +
			`</error>`,
	} {
		require.Equal(s.t, "<results>"+want+"</results>", s.client.must(s.t, frame))
	}
	code, why := s.get("/readyz")
	require.Equal(s.t, http.StatusServiceUnavailable, code)
	require.Contains(s.t, why, "no room for the next segment")
	code, _ = s.get("/healthz")
	require.Equal(s.t, http.StatusOK, code)
	require.Zero(s.t, s.metric("outcry_journal_room"))
	require.Equal(s.t, 16384.0, s.metric("outcry_journal_reserve_bytes"))
	require.GreaterOrEqual(s.t, s.metric("outcry_journal_room_bytes"), 16384.0)
	s.compare()
}

// usesItsReserve cancels orders until cancels are refused, too.
func (s *onSmallDisk) usesItsReserve() {
	s.t.Helper()
	before := len(s.canceled)
	require.Positive(s.t, s.cancel(len(s.open)))
	require.Greater(s.t, len(s.canceled)-before, 16384/150, "the reserve of 16 KiB is there for cancels")
	require.Less(s.t, s.metric("outcry_journal_room_bytes"), 500.0)
	code, _ := s.get("/healthz")
	require.Equal(s.t, http.StatusOK, code)
}

// cancel cancels the n oldest open orders and returns how many cancels were refused because the disk is full.
func (s *onSmallDisk) cancel(n int) (refused int) {
	s.t.Helper()
	var still []string
	for i, a := range s.askAll("cancel", s.open[:n]) {
		id := s.open[i]
		if a.Kind == "canceled" {
			s.canceled = append(s.canceled, id)
			continue
		}
		require.Equal(s.t, "order "+id+" "+reserveOut, a.Error)
		still = append(still, id)
	}
	s.open = append(still, s.open[n:]...)
	return len(still)
}
