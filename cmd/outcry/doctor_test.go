package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/doctor"
	"outcry/internal/testing/exchangetest"
)

// TestDoctorSaysWhatToChange checks a database without fsync, as text and as JSON.
func TestDoctorSaysWhatToChange(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), exchangetest.NewTables(t)
	stdout, stderr, status := outcry("", "doctor", "--data="+data, "--database-url="+database)
	require.Equal(t, cli.ExitError, status, "fsync is off")
	require.Empty(t, stderr)
	require.Regexp(t, `(?m)^bad   fsync +off\n +→ without it a power cut can destroy the database: set fsync = on$`,
		stdout)
	require.Regexp(t, `(?m)^(ok|warn|bad) +disk sync +p50 \S+, p99 \S+, of \d+ synced writes`, stdout)
	stdout, _, status = outcry("", "doctor", "--json", "--data="+data, "--database-url="+database)
	require.Equal(t, cli.ExitError, status)
	var findings []doctor.Finding
	require.NoError(t, json.Unmarshal([]byte(stdout), &findings))
	require.Contains(t, findings, doctor.Finding{Check: "fsync", Grade: doctor.Bad, Value: "off",
		Advice: "without it a power cut can destroy the database: set fsync = on"})
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, entries)
	for args, want := range map[string]string{
		"doctor x":                   "doctor takes no arguments, not 1",
		"doctor --max-connections=0": "--max-connections 0: must be from 1",
		"doctor --max-memory=1":      "--max-memory 1: must be from",
	} {
		_, stderr, status := outcry("", strings.Fields(args)...)
		require.Equal(t, cli.ExitUsage, status)
		require.Contains(t, stderr, want)
	}
	stdout, _, status = outcry("", "doctor", "--help")
	require.Equal(t, cli.ExitOK, status)
	require.Contains(t, stdout, "It changes nothing and leaves no file behind.")
}

// TestDoctorSeesTheLimitsItRunsUnder runs doctor with a low limit of open files.
func TestDoctorSeesTheLimitsItRunsUnder(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `ulimit -n 200; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(),
		runVariable+"=doctor --data="+filepath.Join(t.TempDir(), "none")+" --database-url=postgres://127.0.0.1:1/x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, _ := cmd.Output()
	require.Contains(t, string(out),
		"warn  open files           200 allowed, 20640 needed for 16384 connections and 4096 over HTTP\n")
	require.Contains(t, string(out), "bad   postgres")
	require.Equal(t, cli.ExitError, cmd.ProcessState.ExitCode())
}

// TestADoctorThatIsKilledLeavesNothing kills doctor while it writes its test file.
func TestADoctorThatIsKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runVariable+"=doctor --data="+data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { // wait until it has the file open
		open, _ := filepath.Glob("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/fd/*")
		for _, fd := range open {
			if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, data) {
				return true
			}
		}
		return len(open) == 0 // it ended before its file was seen
	}, time.Minute, 100*time.Microsecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestHelpDoesNotPrintTheDatabase: a URL in the environment may contain a password.
func TestHelpDoesNotPrintTheDatabase(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://u:opensesame@x/x")
	for _, command := range []string{"backup", "restore", "verify", "doctor"} {
		stdout, stderr, status := outcry("", command, "--help")
		require.Equal(t, cli.ExitOK, status)
		require.Contains(t, stdout, "--database-url-file")
		require.NotContains(t, stdout+stderr, "opensesame")
	}
}
