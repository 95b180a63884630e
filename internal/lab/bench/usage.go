package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
	"outcry/internal/lab/vegeta"
	"outcry/internal/operate/doctor"
)

// usage is the processor time of all processes, and the server's memory.
type usage struct {
	server, postgres, client time.Duration
	all                      time.Duration // processor time of the whole machine
	at                       time.Time
	resident                 int64
}

func (m *measurement) usage() (u usage, err error) {
	s, err := m.Usage()
	if err != nil {
		return u, err
	}
	return usage{s.CPU, m.Postgres.CPU(), harness.OwnCPU(), machineCPU(), time.Now(), s.Resident}, nil
}

// machineCPU returns how long all processors were busy so far, including time used by other virtual
// machines on the same hardware. It returns 0 if the system does not report it.
func machineCPU() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	ticks := 0
	for i, field := range strings.Fields(line) {
		if n, err := strconv.Atoi(field); err == nil && i != 4 && i != 5 && i < 9 { // user time includes guests
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// syncs is how many times the disk is measured.
const syncs = 100

// syncMedian returns how long a small write and its sync take on the disk of dir, in milliseconds. It
// writes within a preallocated file, as a journal does.
func syncMedian(dir string) (float64, error) {
	took, err := doctor.TimeSyncs(dir, syncs, time.Minute)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return load.SpreadOf(took, load.Millis).Median, nil
}

// echo measures the echo server with frames and replies of the average sizes of a run, sent in the same
// model. At a fixed rate only its latency is meaningful, not its throughput.
func (m *measurement) echo(ctx context.Context, r *load.Result) error {
	if r.Requests == 0 {
		return nil
	}
	result, err := m.echoes(ctx, r)
	if err != nil {
		return err
	}
	p := &m.point
	p.EchoRate, p.EchoShare = result.Rate(), p.Rate/result.Rate()
	p.EchoP50, p.EchoP99 = load.Millis(result.Quantile(0.5)), load.Millis(result.Quantile(0.99))
	if !m.job.SyncedEcho {
		return nil
	}
	if result, err = m.echoes(ctx, r, "-journal", filepath.Join(m.dir, "echo")); err != nil {
		return err
	}
	p.SyncedEchoRate, p.SyncedEchoShare = result.Rate(), p.Rate/result.Rate()
	return nil
}

// echoes measures an echo server that runs in its own process, with the same number of processors as the exchange.
func (m *measurement) echoes(ctx context.Context, r *load.Result, flags ...string) (*load.Result, error) {
	reply := strconv.Itoa(int(r.BytesIn / r.Requests / uint64(m.job.Scenario.Frames())))
	cmd := exec.CommandContext(ctx, m.programs.Loadtest, append([]string{"echo", "-reply", reply}, flags...)...)
	if m.job.CPUs != "" {
		cmd.Args = append([]string{"taskset", "--cpu-list", m.job.CPUs}, cmd.Args...)
		if cmd.Path, cmd.Err = exec.LookPath("taskset"); cmd.Err != nil {
			return nil, cmd.Err
		}
	}
	cmd.Env = append(os.Environ(), procs(m.job.GOMAXPROCS)...)
	addr, end, err := load.StartEcho(cmd)
	if err != nil {
		return nil, err
	}
	defer end()
	run := &scenario.Run{Addrs: []string{addr}, Params: m.job.Params, Open: vegeta.Open(nil)}
	return m.job.Scenario.Echo(ctx, run, r, m.echoTime)
}
