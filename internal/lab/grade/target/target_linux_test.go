package target

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
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
)

// running returns the living processes that have a word in their command line.
func running(t *testing.T, word string) (pids []int) {
	all, err := processes()
	require.NoError(t, err)
	for _, p := range all {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		if err == nil && strings.Contains(string(line), word) && p.pid != os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// Each command leaves its process group; nevertheless no process of it runs after a Kill.
func TestNoProcessEscapes(t *testing.T) {
	for name, line := range map[string]string{
		"daemon": "SERVER lost WORD",
		"deaf":   "trap '' HUP INT TERM; setsid SERVER deaf WORD & wait",
		"ended":  "SERVER plain WORD & exit 0",
		"orphans": `i=0; while [ $i -lt 20 ]; do
(setsid env -i sh -c 'while :; do sleep 1000; done; : WORD' &); i=$((i+1)); done; exec SERVER plain WORD`,
		// It forks until the limit, and then keeps trying.
		"grows": `(GO; while :; do setsid sh -c 'while :; do sleep 1000 & done; : WORD' & done) 2>/dev/null &
exec SERVER plain WORD`,
		// Each process ends as soon as it has started the next one.
		"runs away": `r() { (r &); }; (GO; r & r & r &) & exec SERVER plain WORD`,
		"new sessions": `echo 'setsid sh $0 WORD &' >$TMPDIR/r
(GO; for i in 1 2 3; do sh $TMPDIR/r WORD & done) 2>/dev/null & exec SERVER plain WORD`,
		"swift": `(GO; SERVER swift WORD & SERVER swift WORD & SERVER swift WORD) & exec SERVER plain WORD`,
	} {
		t.Run(name, func(t *testing.T) {
			word := token(t)
			bomb := strings.Contains(line, "GO;")
			line = strings.NewReplacer("SERVER", "'"+program+"' "+asServer, "WORD", word,
				"GO;", `until [ -e "$TMPDIR/go" ]; do sleep 0.01; done;`).Replace(line)
			s := start(t, Options{Command: line, Limits: Limits{Processes: 300}})
			answers(t, s.Addr())
			require.NotEmpty(t, running(t, word))
			if bomb {
				began := lastPID(t)
				scratch := s.(*guarded).Target.(*command).scratch
				require.NoError(t, os.WriteFile(filepath.Join(scratch, "go"), nil, 0o644))
				require.Eventually(t, func() bool { n := lastPID(t); return n > began+50 || n < began }, waitMax, waitPoll)
			}
			require.NoError(t, s.Kill(t.Context()))
			nothingRuns(t, word)
			isFree(t, s.Addr())
		})
	}
}

// runAway starts a process in a new session and ends, and the new process does the same, as fast as possible.
func runAway() {
	for {
		child, _, wrong := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		switch {
		case wrong != 0: // the limit of processes is reached
		case child != 0:
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		default:
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
		}
	}
}

// lastPID returns the id of the process that was started last.
func lastPID(t *testing.T) (pid int) {
	b, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	_, err = fmt.Sscan(string(b[bytes.LastIndexByte(bytes.TrimSpace(b), ' ')+1:]), &pid)
	require.NoError(t, err)
	return pid
}

// kit starts this program as a kit that starts a server, and returns the process with the server's address.
func kit(t *testing.T, arguments ...string) (*exec.Cmd, string) {
	k := exec.Command(program, append([]string{asKit}, arguments...)...)
	in, err := k.StdinPipe()
	require.NoError(t, err)
	out, err := k.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, k.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = k.Process.Kill()
		_ = k.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	require.True(t, ok, line)
	return k, addr
}

// When the kit is killed, no process of the server survives, not even a daemon: the keeper notices that its lifeline
// was closed.
func TestNothingOutlivesAKilledKit(t *testing.T) {
	word := token(t)
	k, addr := kit(t, server("lost", word))
	answers(t, addr)
	folder := ""
	for _, pid := range running(t, word) { // the keeper has the server's environment
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		require.NoError(t, err)
		if _, after, ok := strings.Cut(string(environ), "\x00TMPDIR="); ok && strings.Contains(string(environ), markName) {
			folder, _, _ = strings.Cut(after, "\x00")
		}
	}
	require.DirExists(t, folder)
	require.NoError(t, k.Process.Kill())
	_ = k.Wait()
	require.Eventually(t, func() bool { return len(running(t, word)) == 0 }, waitMax, waitPoll)
	require.NoDirExists(t, folder)
	isFree(t, addr)
}

// A server that runs as the kit's own user can kill its keeper. Then the processes with the mark are killed.
func TestAServerThatKillsItsKeeper(t *testing.T) {
	word := token(t)
	s := start(t, Options{Command: "setsid " + server("plain", word) + " & wait", User: strconv.Itoa(os.Getuid())})
	answers(t, s.Addr())
	pid := s.(*guarded).Target.(*command).keeper.process.Process.Pid
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.NoError(t, s.Kill(t.Context()))
	nothingRuns(t, word)
}

// A daemon that has cleared its environment and loses its keeper becomes a child of the kit, which kills it.
func TestADaemonWhoseKeeperIsKilled(t *testing.T) {
	word := token(t)
	other := start(t, Options{Command: server("plain", word+"-other"), User: strconv.Itoa(os.Getuid())})
	s := start(t, Options{Command: server("lost", word+"-lost"), User: strconv.Itoa(os.Getuid())})
	answers(t, s.Addr())
	pid := s.(*guarded).Target.(*command).keeper.process.Process.Pid
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.NoError(t, s.Kill(t.Context()))
	nothingRuns(t, word+"-lost")
	answers(t, other.Addr())
}

// The processes of a Compose file have no mark: when its keeper fails, no other server may be killed.
func TestWithoutAMarkNobodyIsKilled(t *testing.T) {
	word := token(t)
	s := start(t, Options{Command: server("plain", word)})
	require.NoError(t, killLost(""))
	answers(t, s.Addr())
}

// A server that runs as the kit's own user can stop its keeper.
func TestAServerThatStopsItsKeeper(t *testing.T) {
	word := token(t)
	s := start(t, Options{Command: server("lost", word), User: strconv.Itoa(os.Getuid())})
	answers(t, s.Addr())
	pid := s.(*guarded).Target.(*command).keeper.process.Process.Pid
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	began := time.Now()
	require.NoError(t, s.Kill(t.Context()))
	require.Less(t, time.Since(began), killTime)
	nothingRuns(t, word)
}

// variables parses the NAME=VALUE lines of a log.
func variables(log string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(log) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			found[name] = value
		}
	}
	return found
}

// The server has the environment, user, limits and files that the package documents.
func TestWhatAServerGets(t *testing.T) {
	t.Setenv("OUTCRY_SECRET", "hidden")
	inherited, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer inherited.Close()
	leak, err := syscall.Dup(int(inherited.Fd())) // the copy stays open in executed programs
	require.NoError(t, err)
	defer syscall.Close(leak)
	limits := Limits{Memory: roomy, Processes: 300, Files: 123, FileSize: 7 << 20}
	before := threadsOf(want().UID)
	s := start(t, Options{Limits: limits, Dir: "/", Command: `env; echo uid=$(id -u); echo gids=$(id -G); echo cwd=$(pwd)
ls -l /proc/$$/fd >$TMPDIR/files; sed -n 's/.* \([0-9]*\) -> \(.*\)/fd-\1=\2/p' $TMPDIR/files
sed -n 's/^\(Max [a-z ]*[a-z]\)  *\([0-9]*\)  *\([0-9]*\) .*/\1=\2:\3/p' /proc/$$/limits
grep NoNewPrivs /proc/$$/status | tr '\t' ' ' | sed 's/: */=/'
echo oom=$(cat /proc/$$/oom_score_adj); touch $TMPDIR/mine && echo scratch=ok
exec ` + server("plain", token(t))})
	require.Eventually(t, func() bool { return strings.Contains(s.Log(), "listens") }, waitMax, waitPoll)
	got := variables(s.Log())
	_, leaked := got["OUTCRY_SECRET"]
	require.False(t, leaked)
	require.Equal(t, os.Getenv("PATH"), got["PATH"])
	for name := range got {
		if name == strings.ToUpper(name) {
			require.Contains(t, []string{"PORT", "PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "LANG", markName, "PWD", "OLDPWD",
				"SHLVL", "_"}, name)
		}
		if n, ok := strings.CutPrefix(name, "fd-"); ok {
			// A shell may keep a copy of its output open for a moment.
			require.True(t, n <= "2" && len(n) == 1 || got[name] == got["fd-2"], "%s=%s", name, got[name])
		}
	}
	require.Equal(t, os.DevNull, got["fd-0"])
	require.Equal(t, strconv.Itoa(want().UID), got["uid"])
	require.Equal(t, "/", got["cwd"])
	require.Equal(t, "1", got["NoNewPrivs"])
	require.Equal(t, "1000", got["oom"])
	require.Equal(t, "ok", got["scratch"])
	require.Equal(t, "123:123", got["Max open files"])
	require.Equal(t, fmt.Sprintf("%d:%[1]d", 7<<20), got["Max file size"])
	require.Equal(t, fmt.Sprintf("%d:%[1]d", uint64(roomy)), got["Max data size"])
	require.Equal(t, "0:0", got["Max core file size"])
	processes, _, _ := strings.Cut(got["Max processes"], ":")
	n, err := strconv.ParseUint(processes, 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, limits.Processes)
	require.Less(t, n, before+limits.Processes+10_000)
	scratch := got["TMPDIR"]
	require.DirExists(t, scratch)
	require.NoError(t, s.Close())
	require.NoDirExists(t, scratch)
}

// want returns the user that a server runs as.
func want() (a struct{ UID int }) {
	if a.UID = os.Getuid(); a.UID == 0 {
		a.UID = nobody
	}
	return a
}

// A server cannot exceed its limits of files, bytes and processes.
func TestLimitsHold(t *testing.T) {
	s, err := Command(Options{Limits: Limits{Memory: 1 << 30, Processes: 100, Files: 32, FileSize: 1 << 20}, Command: `
(dd if=/dev/zero of=$TMPDIR/big bs=65536 count=100; :) 2>/dev/null; echo bytes=$(wc -c <$TMPDIR/big)
(dd if=/dev/zero of=/dev/null bs=1500M count=1 && echo memory=much) 2>/dev/null || echo memory=little
(i=0; while [ $i -lt 2000 ]; do sleep 1000 & i=$((i+1)); done; echo processes=many) 2>/dev/null || echo processes=few
kill -9 0`}) // its group
	require.NoError(t, err)
	require.ErrorIs(t, s.Start(t.Context()), errEnded)
	require.NoError(t, s.Close())
	got := variables(s.Log())
	require.Equal(t, strconv.Itoa(1<<20), got["bytes"])
	require.Equal(t, "little", got["memory"])
	require.Equal(t, "few", got["processes"])
}

// If the kit is root, it does not start a server that could read hidden files or write a result, and no server
// can read the kit's own memory. If the kit is an ordinary user, the server can do what that user can.
func TestHiddenFilesAndResults(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "target-hidden-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	cases, results := filepath.Join(dir, "cases"), filepath.Join(dir, "results")
	require.NoError(t, os.MkdirAll(filepath.Join(cases, "deep"), 0o755))
	require.NoError(t, os.Mkdir(results, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cases, "deep", "a.case"), []byte("secret"), 0o644))
	result := filepath.Join(results, "r.json")
	o := Options{Command: "exec " + server("plain", token(t)), Limits: Limits{Memory: roomy},
		Hidden: []string{cases}, Results: []string{result}}
	try := func() error {
		s, err := Command(o)
		require.NoError(t, err)
		err = s.Start(t.Context())
		require.NoError(t, s.Close())
		return err
	}
	if os.Getuid() != 0 {
		require.NoError(t, try())
		require.NoFileExists(t, result)
		return
	}
	require.ErrorContains(t, try(), "could read "+filepath.Join(cases, "deep", "a.case"))
	require.NoError(t, os.Chmod(cases, 0o700))
	require.NoError(t, try())
	info, err := os.Stat(result)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())
	require.NoError(t, os.Chmod(result, 0o666))
	require.ErrorContains(t, try(), "could write "+result)
	require.NoError(t, os.Chmod(result, 0o600))
	require.NoError(t, os.Chmod(results, 0o777))
	require.ErrorContains(t, try(), "could write "+result, "it could be replaced")
	require.NoError(t, os.Chmod(results, 0o777|os.ModeSticky))
	require.NoError(t, try())

	o.Command = fmt.Sprintf("cat %s/deep/a.case; echo 100 >%s; touch $TMPDIR/x; mv -f $TMPDIR/x %[2]s; "+
		"cat /proc/%d/environ; kill -9 %[3]d $PPID; exec %s", cases, result, os.Getpid(), server("plain", token(t)))
	s := start(t, o)
	require.Eventually(t, func() bool { return strings.Contains(s.Log(), "listens") }, waitMax, waitPoll)
	require.NotContains(t, s.Log(), "secret")
	require.NotContains(t, s.Log(), "HOME=")
	text, err := os.ReadFile(result)
	require.NoError(t, err)
	require.Empty(t, text)
	require.NoError(t, s.Kill(t.Context()))
}

// A server has no terminal, and gets no signals from one: it runs in a new session, and so does its keeper.
func TestAServerHasNoTerminal(t *testing.T) {
	word := token(t)
	start(t, Options{Command: "exec " + server("plain", word)})
	ours, err := unix.Getsid(0)
	require.NoError(t, err)
	sessions := map[int]bool{ours: true}
	for _, pid := range running(t, word) {
		session, err := unix.Getsid(pid)
		require.NoError(t, err)
		sessions[session] = true
	}
	require.Len(t, sessions, 3)
}

// standIn is a program that acts as docker compose in these tests, which must pass without docker. Its
// containers are processes that are not descendants of its callers. It keeps its state in the folder
// DOCKER_STATE.
const standIn = `#!/bin/sh
cd "$DOCKER_STATE" || exit 1
echo "$@" >>calls
[ "$1 $2 $4" = "compose --file --project-name" ] || exit 9
project=$5; shift 5
case $1 in
build) env >environment; [ -f broken ] && { echo "no such image"; exit 17; }; echo building ;;
up) setsid "$PROGRAM" ARGUMENTS >>printed 2>&1 & echo $! >pid ;;
ps) cat ps ;;
logs) cat printed ;;
kill|down)
  if [ -f pid ]; then
    kill -9 $(cat pid)
    while grep -q test-server /proc/$(cat pid)/cmdline 2>/dev/null; do sleep 0.01; done
    rm pid
  fi
  echo $1 >ended ;;
*) exit 9 ;;
esac
`

func TestAComposeFile(t *testing.T) {
	word := token(t)
	state, file := t.TempDir(), filepath.Join(t.TempDir(), "compose.yaml")
	script := strings.NewReplacer(`"$PROGRAM" ARGUMENTS`, server("plain", word)).Replace(standIn)
	require.NoError(t, os.WriteFile(filepath.Join(state, "docker"), []byte(script), 0o755))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	addr := freeAddr(t)
	path := state + ":" + os.Getenv("PATH")
	t.Setenv("PATH", path)
	t.Setenv("DOCKER_STATE", state)
	t.Setenv("SECRET", "hidden")

	s, err := Compose(file, "exchange", addr)
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	answers(t, s.Addr())
	require.NoError(t, s.Kill(t.Context()))
	nothingRuns(t, word)
	require.NoError(t, s.Start(t.Context()))
	answers(t, s.Addr())
	require.Contains(t, s.Log(), "building\nlistens\n")
	require.NoError(t, s.Close())
	nothingRuns(t, word)
	ended, err := os.ReadFile(filepath.Join(state, "ended"))
	require.NoError(t, err)
	require.Equal(t, "down\n", string(ended))
	calls, err := os.ReadFile(filepath.Join(state, "calls"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(calls), " build exchange\n"))
	require.Contains(t, string(calls), " up --detach --no-build exchange\n")
	environment, err := os.ReadFile(filepath.Join(state, "environment"))
	require.NoError(t, err)
	require.NotContains(t, string(environment), "SECRET")

	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	other := `{"URL":"","PublishedPort":0,"Protocol":"tcp"}`
	for _, ps := range []string{
		`{"Publishers":[{"URL":"0.0.0.0","PublishedPort":53,"Protocol":"udp"},` + other + `]}` + "\n" +
			`{"Publishers":[{"URL":"0.0.0.0","PublishedPort":` + port + `,"Protocol":"tcp"}]}`,
		`[{"Publishers":[{"URL":"::","PublishedPort":` + port + `,"Protocol":"tcp"}]}]`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(state, "ps"), []byte(ps), 0o644))
		s := &compose{file: file, service: "exchange", project: "p", log: &tail{max: LogBytesMax}, printed: &tail{},
			environment: []string{"PATH=" + path, "DOCKER_STATE=" + state}}
		found, err := s.published(t.Context())
		require.NoError(t, err)
		require.Equal(t, addr, found)
	}

	require.NoError(t, os.WriteFile(filepath.Join(state, "broken"), nil, 0o644))
	s, err = Compose(file, "exchange", addr)
	require.NoError(t, err)
	require.ErrorContains(t, s.Start(t.Context()), "no such image")
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(state, "broken")))

	k, addr := kit(t, file, "exchange", addr)
	answers(t, addr)
	require.NoError(t, os.Remove(filepath.Join(state, "ended")))
	require.NoError(t, k.Process.Kill())
	_ = k.Wait()
	require.Eventually(t, func() bool {
		ended, err := os.ReadFile(filepath.Join(state, "ended"))
		return err == nil && string(ended) == "down\n"
	}, waitMax, waitPoll)
	nothingRuns(t, word)
}

func TestComposeThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "compose.yaml")
	_, err := Compose(file, "a", "")
	require.ErrorContains(t, err, "compose.yaml")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err = Compose(file, "-a", "")
	require.ErrorContains(t, err, "not a service")
	t.Setenv("PATH", t.TempDir())
	_, err = Compose(file, "a", "")
	require.ErrorContains(t, err, "needs docker")
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("PATH"), "docker"), []byte("#!/bin/sh\n"), 0o755))
	_, err = Compose(file, "a", "x")
	require.ErrorContains(t, err, "not HOST:PORT")
}
