//go:build release

// Package release tests the output of `make release`: it unpacks the archives, starts the programs and trades, without
// Go. It needs dpkg-deb, pip and, for the other architecture, the Debian package qemu-user-static. It runs as root or
// as an ordinary user:
//
//	go test -tags release ./deploy/release
package release

import (
	"bufio"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/process/version"
	"outcry/internal/testing/pgtest"
)

const (
	repository = "../.."

	// patience is how long tests wait for an expected event, also on an emulated machine. No result depends on its
	// value.
	patience = 5 * time.Minute

	// withoutGo is a PATH with the usual programs but without Go.
	withoutGo = "PATH=/usr/local/bin:/usr/bin:/bin"
)

// released is the folder with all released files and the unpacked archives.
var released string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// targets are the platforms for which the tests build the release. One darwin architecture represents both. With
// -short it is left out, because all packages would have to be compiled for it.
func targets() []string {
	linux := []string{"linux/amd64", "linux/arm64"}
	if testing.Short() {
		return linux
	}
	return append(linux, "darwin/arm64")
}

// run makes the release once for all tests.
func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "outcry-release-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	released = filepath.Join(dir, "release")
	made := exec.Command("make", "-C", repository, "release", "OUT="+dir, "TARGETS="+strings.Join(targets(), " "))
	made.Env = append(os.Environ(), "DPKG_DEB_COMPRESSOR_LEVEL=0")
	if out, err := made.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	for _, target := range targets() {
		out, err := exec.Command("tar", "-C", released, "-xzf", archive(target)+".tar.gz").CombinedOutput()
		if err != nil {
			panic(fmt.Sprintf("%v: %s", err, out))
		}
	}
	return pgtest.Main(m)
}

// archive returns the folder of a target's unpacked archive, which is also the archive's path without its extension.
func archive(target string) string {
	return filepath.Join(released, "outcry_"+version.Number+"_"+strings.ReplaceAll(target, "/", "_"))
}

// output runs a program that must succeed, in a folder and with additional environment variables, and returns its
// output. The program is killed if this process ends.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", cmd, out)
	return string(out)
}

func TestTheReleaseIsWholeAndItsNamesAreKnown(t *testing.T) {
	found, err := filepath.Glob(released + "/*.*[a-z]")
	require.NoError(t, err)
	var names []string
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			names = append(names, strings.ReplaceAll(filepath.Base(path), version.Number, "V"))
		}
	}
	want := []string{"outcry_V_amd64.deb", "outcry_V_arm64.deb", "outcry_V_checksums.txt",
		"outcry_client-V-py3-none-any.whl"}
	for _, target := range targets() {
		want = append(want, "outcry_V_"+strings.ReplaceAll(target, "/", "_")+".tar.gz")
	}
	require.ElementsMatch(t, want, names)
	sums := output(t, released, nil, "sha256sum", "--check", "--strict", "outcry_"+version.Number+"_checksums.txt")
	require.Equal(t, len(names)-1, strings.Count(sums, ": OK"), sums)
	for _, arch := range []string{"amd64", "arm64"} {
		deb := "outcry_" + version.Number + "_" + arch + ".deb"
		require.Equal(t, version.Number+" "+arch, strings.Join(strings.Fields(
			output(t, released, nil, "dpkg-deb", "--show", "--showformat=${Version} ${Architecture}", deb)), " "))
		require.Contains(t, output(t, released, nil, "dpkg-deb", "--contents", deb), "outcry/THIRD-PARTY-LICENSES")
	}
}

func TestTheSameCommitMakesTheSameBytes(t *testing.T) {
	dir := t.TempDir()
	output(t, repository, []string{"DPKG_DEB_COMPRESSOR_LEVEL=0"}, "make", "release", "OUT="+dir, "TARGETS=linux/amd64")
	for _, line := range strings.Split(strings.TrimSpace(output(t, dir+"/release", nil, "cat",
		"outcry_"+version.Number+"_checksums.txt")), "\n") {
		require.Contains(t, output(t, released, nil, "cat", "outcry_"+version.Number+"_checksums.txt"), line)
	}
}

func TestProgramsAreStatic(t *testing.T) {
	for _, target := range []string{"linux/amd64", "linux/arm64"} {
		for _, program := range []string{"outcryd", "outcry", "outcry-lab"} {
			f, err := elf.Open(filepath.Join(archive(target), program))
			require.NoError(t, err)
			for _, part := range f.Progs {
				require.NotEqual(t, elf.PT_INTERP, part.Type, "%s %s has a loader", target, program)
			}
			require.NoError(t, f.Close())
		}
	}
	if testing.Short() {
		return
	}
	f, err := macho.Open(filepath.Join(archive("darwin/arm64"), "outcryd"))
	require.NoError(t, err)
	require.Equal(t, macho.CpuArm64, f.Cpu)
	require.NoError(t, f.Close())
}

// exchange is a server started from an archive.
type exchange struct {
	t       *testing.T
	dir     string   // the archive's folder
	command []string // command that programs are run with: none, one for another user, or an emulator
	env     []string
	addr    string
}

// start starts an archive's server, with a PATH without Go and nothing else of this environment, and waits until it
// is ready. The server is stopped when the test ends, and must stop cleanly.
func start(t *testing.T, dir string, command []string, flags ...string) *exchange {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(home), 0o755))
	require.NoError(t, os.Chmod(home, 0o777))
	x := &exchange{t: t, dir: dir, command: command, env: []string{withoutGo, "HOME=" + home}}
	args := append([]string{"--listen=127.0.0.1:0", "--http=", "--data=" + home + "/data"}, flags...)
	server := x.program("outcryd", args...)
	stderr, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		require.NoError(t, server.Wait())
	})
	starting := time.AfterFunc(patience, func() { _ = server.Process.Signal(syscall.SIGTERM) })
	lines, said := bufio.NewScanner(stderr), ""
	for x.addr == "" && lines.Scan() {
		said += lines.Text() + "\n"
		var line struct{ Msg, XML string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
			x.addr = line.XML
		}
	}
	starting.Stop()
	require.NotEmpty(t, x.addr, said)
	go func() { // reads the log, so that it never blocks
		for lines.Scan() {
		}
	}()
	return x
}

// program prepares a program of the archive.
func (x *exchange) program(name string, args ...string) *exec.Cmd {
	line := append(append(append([]string{}, x.command...), filepath.Join(x.dir, name)), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = "/", x.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// trade makes a first trade with the archive's client, and checks the output.
func (x *exchange) trade() {
	x.t.Helper()
	for _, step := range [][2]string{
		{"account 1 20000", "account 1 opened"},
		{"account 2 0", "account 2 opened"},
		{"place SPY 2 500", "SPY"},
		{"sell 2 SPY 100 123.45", "order 1 sells 100 SPY at 123.45"},
		{"buy 1 SPY 100 150", "order 2 buys 100 SPY at 150"},
		{"query 1 2", "executed  100 at 123.45"},
	} {
		out, err := x.program("outcry", append([]string{"--addr=" + x.addr}, strings.Fields(step[0])...)...).CombinedOutput()
		require.NoError(x.t, err, "outcry %s: %s", step[0], out)
		require.Contains(x.t, string(out), step[1])
	}
}

// TestTheArchiveTradesWithoutGo starts the programs with a local Postgres.
func TestTheArchiveTradesWithoutGo(t *testing.T) {
	for _, dir := range strings.Split(strings.TrimPrefix(withoutGo, "PATH="), ":") {
		require.NoFileExists(t, filepath.Join(dir, "go"))
	}
	users := map[string][]string{"as ourselves": nil}
	if os.Geteuid() == 0 {
		users["as nobody"] = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	}
	for name, command := range users {
		t.Run(name, func(t *testing.T) { start(t, archive("linux/amd64"), command).trade() })
	}
}

func TestTheOtherArchitectureTradesWithADatabaseThatIsNamed(t *testing.T) {
	emulator, err := exec.LookPath("qemu-aarch64-static")
	require.NoError(t, err, "Debian's package qemu-user-static has it")
	start(t, archive("linux/arm64"), []string{emulator}, "--database-url="+pgtest.NewDatabase(t)).trade()
}

// TestTheWheelTrades installs the Python client alone and trades with it.
func TestTheWheelTrades(t *testing.T) {
	dir := t.TempDir()
	output(t, dir, nil, "python3", "-m", "venv", "venv")
	output(t, dir, nil, "venv/bin/pip", "install", "--quiet", "--no-index",
		filepath.Join(released, "outcry_client-"+version.Number+"-py3-none-any.whl"))
	x := start(t, archive("linux/amd64"), nil, "--database-url="+pgtest.NewDatabase(t))
	require.Equal(t, version.Number+" 1\n", output(t, dir, []string{"OUTCRY_ADDR=" + x.addr}, "venv/bin/python", "-c", `
import importlib.metadata, outcry
assert importlib.metadata.version("outcry-client") == outcry.__version__
assert "Apache License" in importlib.metadata.distribution("outcry-client").read_text("licenses/LICENSE")
with outcry.Exchange() as exchange:
    exchange.open_account("1", 20000)
    exchange.place("SPY", "1", 500)
    print(outcry.__version__, exchange.buy("1", "SPY", 1, 100).id)`))
}
