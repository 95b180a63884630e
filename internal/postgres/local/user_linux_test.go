package local

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADirectoryBelowAClosedHomeWorks(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	o := options(filepath.Join(home, "data"))
	c := begin(t, o)
	keep(t, c, 1)
	stop(t, c)
	requireKept(t, begin(t, o), 1)
}

// ways returns the ways in which this process can run Postgres: two for an unrestricted root, otherwise one.
func ways(t *testing.T) map[string]*syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return map[string]*syscall.SysProcAttr{"as ourselves": {}}
	}
	uid, gid, err := unprivileged("")
	require.NoError(t, err)
	all := map[string]*syscall.SysProcAttr{"as another user": asOther(uid, gid),
		"in a user namespace": inNamespace(uid, gid)}
	for name, attr := range all {
		if err := probe(bin(t), attr); err != nil {
			t.Logf("not possible here: %s: %v", name, err)
			delete(all, name)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// bin returns the folder of the binaries that Start finds.
func bin(t *testing.T) string {
	t.Helper()
	bin, err := findBinaries(background, options(t.TempDir()), thisMachine)
	require.NoError(t, err)
	return bin
}

func TestEveryWayToRunPostgresWorks(t *testing.T) {
	for name, way := range ways(t) {
		t.Run(name, func(t *testing.T) {
			o, m := options(t.TempDir()), thisMachine
			m.user = func(_, _ string) (*syscall.SysProcAttr, error) { return way, nil }
			c := beginOn(t, o, m)
			keep(t, c, 5)
			killed := c.Pid()
			require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
			requireKept(t, c, 5)
			stop(t, c)
			requireKept(t, begin(t, o), 5) // root's data is given to the other user
		})
	}
}

func TestPostgresRunsAsTheOwnerOfTheData(t *testing.T) {
	data := t.TempDir()
	_ = os.Chown(data, 4711, 4712) // only root can do this; otherwise this user stays the owner
	owner, group, err := ownerOf(data)
	require.NoError(t, err)
	if owner == 0 { // root without the right to change owners
		owner, group, err = unprivileged("/nowhere")
		require.NoError(t, err)
	}
	uid, gid, err := unprivileged(data)
	require.NoError(t, err)
	require.Equal(t, []int{owner, group}, []int{uid, gid})
	require.NotZero(t, uid)
}

func TestWhereRootCannotRunPostgresTheErrorSaysSo(t *testing.T) {
	if os.Geteuid() != 0 {
		require.Error(t, probe("/nowhere", &syscall.SysProcAttr{}))
		return
	}
	_, err := asUser(t.TempDir(), "/nowhere")
	require.ErrorContains(t, err, "neither as user")
	require.ErrorContains(t, err, "--database-url")
}

// TestAnOrdinaryUserCanRunIt runs a cluster as an unprivileged user; root becomes one for this.
func TestAnOrdinaryUserCanRunIt(t *testing.T) {
	dir, program := t.TempDir(), os.Args[0]
	as, uid := &syscall.SysProcAttr{}, os.Geteuid()
	if other := ways(t)["as another user"]; other != nil {
		as, uid = other, int(other.Credential.Uid)
		var err error
		// The tests' own folders are closed to that user.
		dir, err = os.MkdirTemp("/tmp", "outcry-ordinary-")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		program = filepath.Join(dir, "program")
		content, err := os.ReadFile(os.Args[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(program, content, 0o755))
		require.NoError(t, os.Chown(dir, uid, int(other.Credential.Gid)))
	}
	cluster := filepath.Join(dir, "cluster")
	o := newOwner(t, program, cluster, as).started(t)
	owner, _, err := ownerOf(filepath.Join(cluster, "data"))
	require.NoError(t, err)
	require.Equal(t, uid, owner)
	o.kill()
	require.Eventually(t, func() bool { return !alive(o.postmaster) }, patience, time.Millisecond)
	keep(t, begin(t, options(cluster)), 1) // root continues as that user
	owner, _, err = ownerOf(filepath.Join(cluster, "data"))
	require.NoError(t, err)
	require.Equal(t, uid, owner)
}

// anotherUser returns a user of this machine that Postgres does not run as by default.
func anotherUser(t *testing.T) (name string, uid int) {
	t.Helper()
	for _, name := range []string{"bin", "games", "mail", "www-data"} {
		if uid, _, ok := idsOf(name); ok {
			return name, uid
		}
	}
	t.Fatal("this machine has no other user")
	return "", 0
}

// TestAsRootPostgresRunsAsAUserOfItsOwn: once ownUser exists, Postgres runs as it, with the data of an earlier
// start.
func TestAsRootPostgresRunsAsAUserOfItsOwn(t *testing.T) {
	if ways(t)["as another user"] == nil {
		return // only root can become another user
	}
	name, uid := anotherUser(t)
	o, log := options(t.TempDir()), new(bytes.Buffer)
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	c := begin(t, o)
	keep(t, c, 1)
	stop(t, c)
	former := int(c.as.Credential.Uid)
	require.Contains(t, log.String(), "whose other programs can read and change its files")
	require.Contains(t, log.String(), "user="+userName(former))

	defer func(name string) { ownUser = name }(ownUser)
	ownUser = name
	log.Reset()
	// Simulate a start that was killed while it changed the files' owner.
	require.NoError(t, os.Chown(filepath.Join(c.dataDir(), "base"), uid, uid))
	c = begin(t, o)
	requireKept(t, c, 1)
	require.NotContains(t, log.String(), "other programs")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Pid()))
	require.NoError(t, err)
	require.Contains(t, string(status), fmt.Sprintf("\nUid:\t%d\t", uid))
	require.NoError(t, filepath.WalkDir(c.dataDir(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		owner, _, err := ownerOf(path)
		require.Equal(t, uid, owner, path)
		return err
	}))
	stop(t, c)
	ownUser = "no-such-user" // the data stays with its owner
	require.Equal(t, uid, int(begin(t, o).as.Credential.Uid))
}

// TestFilesAreGivenAwayWithoutFollowingLinks: own follows no links, and changes the owner of the directory
// itself last.
func TestFilesAreGivenAwayWithoutFollowingLinks(t *testing.T) {
	way := ways(t)["as another user"]
	if way == nil {
		return // only root can change owners
	}
	dir, other := t.TempDir(), t.TempDir()
	precious := filepath.Join(other, "precious")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	require.NoError(t, os.Symlink(precious, filepath.Join(dir, "file")))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "folder")))
	c := &Cluster{as: way}
	require.NoError(t, c.own(dir))
	for path, want := range map[string]int{precious: 0, other: 0, dir: int(way.Credential.Uid)} {
		owner, _, err := ownerOf(path)
		require.NoError(t, err)
		require.Equal(t, want, owner, path)
	}
}

// TestDataOfAnotherUserRunsInANamespace runs one data directory in turn as another user and in a user
// namespace, in which the files must belong to root.
func TestDataOfAnotherUserRunsInANamespace(t *testing.T) {
	all := ways(t)
	if all["as another user"] == nil || all["in a user namespace"] == nil {
		return // only root has both ways
	}
	o, m := initialized(t, t.TempDir()), thisMachine
	for _, way := range []string{"as another user", "in a user namespace", "as another user"} {
		m.user = func(_, _ string) (*syscall.SysProcAttr, error) { return all[way], nil }
		c := beginOn(t, o, m)
		keep(t, c, 1)
		stop(t, c)
	}
}
