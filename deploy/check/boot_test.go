//go:build deploy || operations

package check

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is a throwaway copy of this machine in which systemd runs (machine.sh).
type machine struct {
	t   *testing.T
	pid string // process id of the machine's systemd, as seen from outside
}

// boot starts a machine, which ends with the test or with this process. shared holds pairs: a folder here, and the
// path at which the machine sees it.
func boot(t *testing.T, shared ...string) machine {
	t.Helper()
	require.Zero(t, os.Geteuid(), "this test needs root")
	runtime.LockOSThread() // Pdeathsig kills the machine when the thread that started it ends
	dir := t.TempDir()
	// not bound to the test's context, which ends before the processes in the machine do
	script := exec.Command("./machine.sh", append([]string{dir}, shared...)...)
	script.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	script.Stdout, script.Stderr = &log, &log
	require.NoError(t, script.Start())
	m := machine{t: t}
	t.Cleanup(func() {
		init, err := strconv.Atoi(m.pid)
		if err != nil {
			init = script.Process.Pid // the machine's systemd was not found
		}
		_ = syscall.Kill(init, syscall.SIGKILL) // ends every process in the machine
		script.Wait()
		removeCgroups(script.Process.Pid)
	})
	children := fmt.Sprintf("/proc/%d/task/%[1]d/children", script.Process.Pid)
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(children)
		m.pid = strings.TrimSpace(string(b))
		return m.pid != "" && m.try("systemctl is-active machine.target") == "active"
	}, patience, 50*time.Millisecond, "%s", &log)
	return m
}

// removeCgroups removes the empty control groups that a machine leaves.
func removeCgroups(pid int) {
	found, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/outcry-machine-%d", pid))
	for _, top := range append(found, fmt.Sprintf("/sys/fs/cgroup/outcry-machine-%d", pid)) {
		var all []string
		_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for i := len(all) - 1; i >= 0; i-- {
			_ = os.Remove(all[i]) // inner groups first
		}
	}
}

// shell runs a shell command in the machine with the given standard input, and returns its output.
func (m machine) shell(script, input string) (string, error) {
	m.t.Helper()
	cmd := command(m.t, "nsenter", "--target="+m.pid, "--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup", "--root",
		"--wd", "sh", "-c", script)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run is shell for a command that must succeed.
func (m machine) run(script string) string {
	m.t.Helper()
	out, err := m.shell(script, "")
	if err != nil {
		log, _ := m.shell("journalctl --no-pager | tail -40", "")
		require.NoError(m.t, err, "%s: %s\n%s", script, out, log)
	}
	return out
}

// try is shell for a command that may fail.
func (m machine) try(script string) string {
	m.t.Helper()
	out, _ := m.shell(script, "")
	return out
}

// packaging is held while a package is made and read, because all packages are made in the same folder.
var packaging sync.Mutex

// install builds the package with a version and installs it.
func (m machine) install(version string) {
	m.t.Helper()
	m.put("/root/outcry.deb", packageOf(m.t, binaries(m.t), version))
	m.run("dpkg --install /root/outcry.deb")
}

// put writes a file in the machine.
func (m machine) put(path string, content []byte) {
	m.t.Helper()
	out, err := m.shell("cat > "+path, string(content))
	require.NoError(m.t, err, out)
}

// packageOf makes a package of the binaries in a folder, with the given version, and returns its bytes.
func packageOf(t *testing.T, binaries, version string) []byte {
	t.Helper()
	packaging.Lock()
	defer packaging.Unlock()
	b, err := os.ReadFile(makePackage(t, binaries, version))
	require.NoError(t, err)
	return b
}
