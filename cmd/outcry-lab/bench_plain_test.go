package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/faulty"
	"outcry/internal/lab/load/scenario"
	"outcry/internal/lab/measure"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

// student starts a server of the protocol without refs, which stops at the end of the test.
func student(t *testing.T, o faulty.Options) (addr string) {
	t.Helper()
	addr, stop, err := faulty.Start(o)
	require.NoError(t, err)
	t.Cleanup(stop)
	return addr
}

// TestAServerIsMeasuredBesideOutcryAndEchoes measures a server whose frames have another form, together with
// Outcry and an echo server.
func TestAServerIsMeasuredBesideOutcryAndEchoes(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	program := exchangetest.Program(t, "outcry-lab")
	habits := dialect.Habits{AccountAttribute: true, Bare: true}
	addr := student(t, faulty.Options{Habits: habits})
	cmd := exec.Command(program, "bench", "run", "--beside", "--addr="+addr, "--duration=200ms", "--rounds=2", "--json",
		"--connections=3")
	temporary := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var r measure.Comparison
	require.NoError(t, json.Unmarshal(out, &r))
	require.Equal(t, habits, r.Habits)
	require.Len(t, r.Servers, 3)
	for i, kind := range []string{"server", "outcry", "echo"} {
		row := r.Servers[i]
		require.Equal(t, kind, row.Kind)
		require.NotZero(t, row.Requests, kind)
		require.Positive(t, row.Rate)
		require.LessOrEqual(t, row.Least, row.Rate)
		require.LessOrEqual(t, row.Rate, row.Most)
		require.Positive(t, row.P50)
		require.LessOrEqual(t, row.P50, row.P99)
		require.Positive(t, row.Share)
		require.Zero(t, row.Refused+row.Lost+row.Wrong+row.Doubled, "%+v", row)
		if kind != "echo" {
			require.Equal(t, row.Requests, row.Opened)
			require.NotZero(t, row.Asked)
		}
	}
	require.InDelta(t, 1, r.Servers[2].Share, 1e-9)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "the Outcry beside is gone, and its directory")
}

// TestABenchFindsOutHowAServerSpeaks: bench detects a server's habits without a flag, and describes them.
func TestABenchFindsOutHowAServerSpeaks(t *testing.T) {
	for _, c := range []struct {
		habits dialect.Habits
		want   string
	}{
		{dialect.Habits{}, "habits: those of the protocol\n"},
		{dialect.Habits{OneFrame: true}, "habits: closes after a reply\n"},
		{dialect.Habits{CRLF: true, ResultRoot: true}, "habits: wants CR LF, sends <result>\n"},
	} {
		stdout, stderr, status := lab("", "bench", "run", "--addr="+student(t, faulty.Options{Habits: c.habits}),
			"--orders=200", "--connections=2")
		require.Equal(t, cli.ExitOK, status, stderr)
		require.Contains(t, stdout, "2 connections, 1 in flight on each; "+c.want)
		require.Regexp(t, `\n127\.0\.0\.1:\d+ +\d+ +[\d.]+ +[\d.]+ +200 +0\n`+
			`--beside measures Outcry and an echo server too\n$`, stdout)
	}
}

// TestABenchOfOutcryWithoutRefs: bench uses refs with Outcry, unless a flag forbids it.
func TestABenchOfOutcryWithoutRefs(t *testing.T) {
	p := exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t))
	stdout, stderr, status := lab("", "bench", "run", "--addr="+p.Addr, "--orders=200")
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Contains(t, stdout, "asked        200 orders: 0 lost, 0 doubled")
	stdout, stderr, status = lab("", "bench", "run", "--addr="+p.Addr, "--orders=200", "--no-refs", "--depth=4")
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Contains(t, stdout, "4 connections, 4 in flight on each; habits: those of the protocol\n")
}

// TestWhatAServerDoesWrongUnderLoadIsTold: a server's errors are shown in the table, below it, and by the exit
// status.
func TestWhatAServerDoesWrongUnderLoadIsTold(t *testing.T) {
	addr := student(t, faulty.Options{Faults: []string{"ids-per-symbol"}})
	stdout, _, status := lab("", "bench", "run", "--addr="+addr, "--orders=100")
	require.Equal(t, cli.ExitError, status, stdout)
	require.Regexp(t, `\n127\.0\.0\.1:\d+: 0 orders lost, \d+ wrong, [1-9]\d* numbers given twice, for example: `, stdout)
}

// TestAProfileSaysTheHabits: habits in a profile are not probed, and wrong habits cause an error.
func TestAProfileSaysTheHabits(t *testing.T) {
	addr := student(t, faulty.Options{Habits: dialect.Habits{AccountAttribute: true}})
	profile := filepath.Join(t.TempDir(), "profile.toml")
	write := func(account string) {
		text := fmt.Sprintf("[habits]\naccount = %q\nlength = \"lf\"\nbare = \"no\"\noneframe = \"no\"\n", account)
		require.NoError(t, os.WriteFile(profile, []byte(text), 0o600))
	}
	write("account")
	stdout, stderr, status := lab("", "bench", "run", "--addr="+addr, "--orders=100", "--profile="+profile)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Contains(t, stdout, "habits: wants the attribute account\n")
	write("name")
	_, stderr, status = lab("", "bench", "run", "--addr="+addr, "--orders=100", "--profile="+profile)
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "--profile "+profile+": ")
}

// TestEveryExperimentOfEarlierSystemsRunsAgainstAnyServer runs each experiment against a server that closes the
// connection after a reply, uses another attribute and sends no length, and then twice against Outcry, which still has
// the first run's accounts in the second run.
func TestEveryExperimentOfEarlierSystemsRunsAgainstAnyServer(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	habits := dialect.Habits{AccountAttribute: true, Bare: true, OneFrame: true}
	own := exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t)).Addr
	all := scenario.All()
	published := slices.Clone(all)
	t.Cleanup(func() { copy(all, published) })
	for i := range all { // a few open orders show the same as the tens of thousands that some experiments place
		all[i].Defaults.Orders = min(all[i].Defaults.Orders, 300)
	}
	for _, name := range measure.Experiments() {
		other := student(t, faulty.Options{Habits: habits}) // new: two probes in one second use the same ids
		addrs := []string{other, own}
		if name == "mix5" {
			addrs = append(addrs, own)
		}
		for _, addr := range addrs {
			stdout, stderr, status := lab("", "bench", "run", "--addr="+addr, "--experiment="+name, "--connections=3",
				"--requests=4", "--json")
			require.Equal(t, cli.ExitOK, status, "%s: %s%s", name, stdout, stderr)
			var r measure.Comparison
			require.NoError(t, json.Unmarshal([]byte(stdout), &r))
			require.Equal(t, name, r.Experiment)
			require.Equal(t, addr == other, r.Habits.OneFrame)
			requests := 12
			if strings.HasPrefix(name, "populate") {
				requests = 24 // number of frames
			}
			require.EqualValues(t, requests, r.Servers[0].Requests, name)
			require.Zero(t, r.Servers[0].Refused, stdout)
		}
	}
	for args, text := range map[string]string{
		"--experiment=none":               `--experiment "none": must be one of cores, `,
		"--experiment=mix5 --rate=5":      "--rate 5: an experiment has no rate",
		"--experiment=mix5 --depth=2":     "--depth 2: an experiment has a depth of 1",
		"--experiment=mix5 --requests=-1": "--requests -1: must be from 0",
	} {
		_, stderr, status := lab("", append([]string{"bench", "run"}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitUsage, status)
		require.Contains(t, stderr, text)
	}
}

// TestABenchWithoutOutcrydSaysSo: a bench with --beside fails before it measures anything if outcryd is missing or
// does not start.
func TestABenchWithoutOutcrydSaysSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, stderr, status := lab("", "bench", "run", "--beside", "--addr="+student(t, faulty.Options{}))
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "no outcryd next to this program")
	_, stderr, status = lab("", "bench", "run", "--beside", "--addr="+student(t, faulty.Options{}),
		"--outcryd=/bin/false")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "/bin/false ended before it was ready")
}

// TestEchoesEndWithTheirInput: an echo server exits when its standard input ends, because then the process that
// started it has ended.
func TestEchoesEndWithTheirInput(t *testing.T) {
	stdout, stderr, status := lab("", "bench", "echo")
	require.Equal(t, cli.ExitOK, status, stderr)
	_, _, err := net.SplitHostPort(strings.TrimSpace(stdout))
	require.NoError(t, err)
	_, stderr, status = lab("", "bench", "echo", "--reply=-1")
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "--reply -1: must be from 0")
}
