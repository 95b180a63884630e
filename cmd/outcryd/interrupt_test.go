package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCtrlCIsForTheServerAlone sends SIGINT to the whole process group, as a terminal does. The local Postgres must
// keep running until the server stops it, and the log must have no warning.
func TestCtrlCIsForTheServerAlone(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := prepare(t, "--data="+data, "--database-url=", "--config=-"+filepath.Join(data, "none"))
	p.cmd.SysProcAttr.Setpgid = true
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	p.waitReady(t)
	dial(t, p.xml).must(t, `<create><account id="1" balance="5"/></create>`)

	text, err := os.ReadFile(filepath.Join(data, "postgres", "data", "postmaster.pid"))
	require.NoError(t, err)
	postmaster, err := strconv.Atoi(strings.SplitN(string(text), "\n", 2)[0])
	require.NoError(t, err)
	group, err := syscall.Getpgid(postmaster)
	require.NoError(t, err)
	require.NotEqual(t, p.cmd.Process.Pid, group, "a terminal interrupts Postgres too")

	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT))
	require.NoError(t, p.cmd.Wait(), "log: %s", p.log)
	_, stop, stopped := strings.Cut(p.log.String(), `"msg":"stopping: `)
	require.True(t, stopped, p.log)
	require.NotContains(t, stop, `"level":"WARN"`)
	require.NotContains(t, stop, `"level":"ERROR"`)
	require.NoFileExists(t, filepath.Join(data, "postgres", "data", "postmaster.pid"))
}
