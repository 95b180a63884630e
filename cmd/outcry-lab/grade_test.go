package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/faulty"
	"outcry/internal/lab/grade/script"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

func TestWhatAGradeIsToldIsChecked(t *testing.T) {
	t.Setenv("OUTCRY_ADDR", "127.0.0.1:1") // must be ignored: it is our exchange's address, not the graded server's
	profile := filepath.Join(t.TempDir(), "profile.toml")
	require.NoError(t, os.WriteFile(profile, []byte("[grade]\npionts = 5\n"), 0o600))
	for args, want := range map[string]string{
		"":                                         "no server is named: --addr, --start, --compose or --many is needed",
		"--start x --compose y":                    "only one of --start, --compose and --many can be given",
		"--compose y":                              "--compose and --service must be given together",
		"--many . ":                                "--many and --csv must be given together",
		"--many . --csv x --addr y":                "--many cannot have --addr",
		"--many . --csv x --json y":                "--many cannot have --json",
		"--addr localhost --user y":                "--user is for --start and --many",
		"--addr localhost --require -1":            "--require -1: must be a score of 0 or more",
		"--addr localhost --require NaN":           "--require NaN: must be a score",
		"--addr localhost --time 0":                "--time 0: must be from 1 to 86400",
		"--addr ::1":                               "--addr: an IPv6 address must be in brackets",
		"--start=":                                 "--start is empty",
		"--addr localhost --json=":                 "--json is empty",
		"--addr localhost --profile /none":         "--profile: open /none",
		"--addr localhost --cases /none":           "--cases /none",
		"--addr localhost --seed x":                `--seed "x"`,
		"--addr localhost x":                       "grade takes no arguments, not 1",
		"--gradescope-zip x --addr y":              "--gradescope-zip needs --start",
		"--gradescope-zip x --start y --json z":    "--gradescope-zip cannot have --json",
		"--gradescope-zip x --start y --html z":    "--gradescope-zip cannot have --html",
		"--gradescope-zip x --start y --require 0": "--gradescope-zip cannot have --require",
		"--gradescope-zip x --start y --gradescope z --junit z": "--gradescope-zip cannot have --gradescope and --junit",
		"--addr localhost --profile " + profile:                 "unknown key grade.pionts",
	} {
		_, stderr, status := lab("", append([]string{"grade"}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitUsage, status, "%s: %s", args, stderr)
		require.Contains(t, stderr, want, args)
	}
}

// someCases writes a folder with cases that run quickly, and returns it with a profile that scores no other
// group.
func someCases(t *testing.T) (cases, profile string) {
	t.Helper()
	dir := t.TempDir()
	cases, profile = filepath.Join(dir, "cases"), filepath.Join(dir, "profile.toml")
	require.NoError(t, os.MkdirAll(filepath.Join(cases, "create"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(cases, "create", "never.case"), []byte(`case   create/never
rule   create
tell   No server does this.
hidden yes
>  <create><account id="{a}" balance="1"/></create>
<  <error/>
`), 0o600))
	var text strings.Builder
	text.WriteString("[weights]\n")
	for _, g := range script.Groups {
		if g.Name != "create" {
			fmt.Fprintf(&text, "%s = 0\n", g.Name)
		}
	}
	require.NoError(t, os.WriteFile(profile, []byte(text.String()), 0o600))
	return cases, profile
}

// TestAServerIsGradedAndTheResultIsWritten: a grade writes its result to all files. One case of ten fails.
func TestAServerIsGradedAndTheResultIsWritten(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	t.Parallel()
	addr, stop, err := faulty.Start(faulty.Options{})
	require.NoError(t, err)
	defer stop()
	cases, profile := someCases(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"grade", "--addr", addr, "--cases", cases, "--profile", profile, "--json", file("json"), "--html",
		file("html"), "--junit", file("junit"), "--gradescope", file("gradescope"), "--seed", "7"}
	stdout, stderr, status := lab("", append(args, "--require", "100")...)
	require.Equal(t, cli.ExitError, status, stderr)
	require.Contains(t, stderr, "is below --require 100")
	text, err := os.ReadFile(file("json"))
	require.NoError(t, err)
	var r grade.Result
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, 1, r.Version)
	require.EqualValues(t, 7, r.Seed)
	require.Equal(t, addr, r.Target)
	require.Greater(t, r.Score, 80.0)
	require.Less(t, r.Score, 100.0)
	failed := 0
	for _, c := range r.Cases {
		if c.Status != script.Fail {
			continue
		}
		failed++
		require.Equal(t, "create/never", c.Name, c.Message)
		require.True(t, c.Hidden)
		require.NotEmpty(t, c.Conversation)
		require.Contains(t, stdout, "\nFAIL create/never (0 of ")
		require.Contains(t, stdout, "PROTOCOL, create: No server does this.\n")
		require.Contains(t, stdout, c.Conversation[0])
	}
	require.Equal(t, 1, failed)
	require.Contains(t, stdout, fmt.Sprintf("%.2f", r.Score))
	for _, name := range []string{"html", "junit", "gradescope"} {
		text, err := os.ReadFile(file(name))
		require.NoError(t, err)
		require.Contains(t, string(text), "create/never"[strings.IndexByte("create/never", '/')+1:], name)
	}
	_, stderr, status = lab("", append(args, "--require", "10")...)
	require.Equal(t, cli.ExitOK, status, stderr)
}

func TestAServerThatNeverAcceptsHasScoreZero(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "json")
	stdout, stderr, status := lab("", "grade", "--start", "echo no libpqxx; exit 1", "--user", fmt.Sprint(os.Getuid()),
		"--json", file)
	require.Equal(t, cli.ExitNoAnswer, status, stderr)
	require.Contains(t, stderr, "nothing accepts a connection")
	require.Contains(t, stdout, "no libpqxx")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r grade.Result
	require.NoError(t, json.Unmarshal(text, &r))
	require.Zero(t, r.Score)
	require.Contains(t, r.Log, "no libpqxx")
	require.NotEmpty(t, r.Cases)
}

// TestAGradeThatIsStoppedWritesWhatThereIs sends SIGTERM while a server that does not answer is graded; the result
// is written anyway.
func TestAGradeThatIsStoppedWritesWhatThereIs(t *testing.T) {
	t.Parallel()
	addr, stop, err := faulty.Start(faulty.Options{Hostile: "silent"})
	require.NoError(t, err)
	defer stop()
	file := filepath.Join(t.TempDir(), "json")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runVariable+"=grade --addr "+addr+" --json "+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	_, err = stderr.Read(make([]byte, 1)) // progress output means that grading has begun
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, cli.ExitError, cmd.ProcessState.ExitCode())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r grade.Result
	require.NoError(t, json.Unmarshal(text, &r))
	require.Contains(t, string(text), "Not run: the run was stopped before.")
}

func TestManyServersAreGradedOnce(t *testing.T) {
	t.Parallel()
	dir, table := t.TempDir(), filepath.Join(t.TempDir(), "grades.csv")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "alice"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bob"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alice", "grade.sh"), []byte("exit 1\n"), 0o644))
	args := []string{"grade", "--many", dir, "--csv", table, "--user", fmt.Sprint(os.Getuid())}
	stdout, stderr, status := lab("", args...)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Regexp(t, `^   0\.00  alice\n +nothing accepts a connection: .*the command ended \(exit status 1\)`, stdout)
	require.Contains(t, stderr, "outcry-lab: bob has no grade.sh\n")
	before, err := os.ReadFile(table)
	require.NoError(t, err)
	require.Contains(t, string(before), "alice,total,0,100,")
	help, _, _ := lab("", "grade", "--help")
	require.Contains(t, help, "a line for each group, and one for the total")
	stdout, stderr, status = lab("", args...)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "outcry-lab: 1 server is already in "+table+"\n")
}

func TestAnAutograderIsWritten(t *testing.T) {
	t.Parallel()
	cases, profile := someCases(t)
	file := filepath.Join(t.TempDir(), "autograder.zip")
	_, stderr, status := lab("", "grade", "--gradescope-zip", file, "--start", "make && exec ./server", "--profile",
		profile, "--cases", cases, "--addr", "localhost", "--seed", "7", "--time", "60", "--user", "student", "--load")
	require.Equal(t, cli.ExitOK, status, stderr)
	z, err := zip.OpenReader(file)
	require.NoError(t, err)
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		require.Equal(t, 1980, f.Modified.Year(), "no month 0, which other programs take for damage")
	}
	require.ElementsMatch(t, []string{"setup.sh", "run_autograder", "outcry-lab", "start", "options", "profile.toml",
		"cases/create/never.case"}, names)
	options, err := z.Open("options")
	require.NoError(t, err)
	text, err := io.ReadAll(options)
	require.NoError(t, err)
	require.Equal(t, "--addr=localhost:12345\n--load=true\n--seed=7\n--time=60\n--user=student\n", string(text))
}

// TestOutcryHasAllPoints grades the exchange, which keeps its data when it is killed.
func TestOutcryHasAllPoints(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	stdout, stderr, status := lab("", "grade", "--require", "100", "--user", fmt.Sprint(os.Getuid()), "--start",
		fmt.Sprintf("exec '%s' --data '%s' --listen 127.0.0.1:$PORT --http= --database-url=", exchangetest.Server(t), data))
	require.Equal(t, cli.ExitOK, status, "%s%s", stdout, stderr)
}
