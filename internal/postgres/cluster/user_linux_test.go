package cluster

import (
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

// ways are those in which this process can run Postgres here. As root there are two
// where nothing is forbidden, as anybody else there is one.
func ways(t *testing.T) map[string]*syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return map[string]*syscall.SysProcAttr{"as ourselves": {}}
	}
	uid, gid, err := unprivileged("")
	require.NoError(t, err)
	all := map[string]*syscall.SysProcAttr{"as another user": asOther(uid, gid), "in a user namespace": inNamespace(uid, gid)}
	for name, attr := range all {
		if err := probe(bin(t), attr); err != nil {
			t.Logf("not possible here: %s: %v", name, err)
			delete(all, name)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// bin is the folder of the binaries that Start finds.
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
			requireKept(t, begin(t, o), 5) // data that root owns is given to the other user
		})
	}
}

func TestPostgresRunsAsTheOwnerOfTheData(t *testing.T) {
	data := t.TempDir()
	_ = os.Chown(data, 4711, 4712) // only root can; others own it themselves
	owner, group, err := ownerOf(data)
	require.NoError(t, err)
	if owner == 0 { // a root that cannot give anything away
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

// TestAnOrdinaryUserCanRunIt does so as root too, by becoming one.
func TestAnOrdinaryUserCanRunIt(t *testing.T) {
	dir, program := t.TempDir(), os.Args[0]
	as, uid := &syscall.SysProcAttr{}, os.Geteuid()
	if other := ways(t)["as another user"]; other != nil {
		as, uid = other, int(other.Credential.Uid)
		var err error
		// The folders of tests are closed to that user.
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
	keep(t, begin(t, options(cluster)), 1) // root goes on as that user
	owner, _, err = ownerOf(filepath.Join(cluster, "data"))
	require.NoError(t, err)
	require.Equal(t, uid, owner)
}
