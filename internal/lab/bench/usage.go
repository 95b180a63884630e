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

// usage is the processor time of everybody, and the server's memory.
type usage struct {
	server, postgres, client time.Duration
	all                      time.Duration // of the whole machine
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

// machineCPU returns the time that all processors were not idle so far, also for another machine on the same
// hardware; 0 if the system does not tell.
func machineCPU() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	ticks := 0
	for i, field := range strings.Fields(line) {
		if n, err := strconv.Atoi(field); err == nil && i != 4 && i != 5 && i < 9 { // idle, waiting; guests are users
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// syncs is how often the disk is tried.
const syncs = 100

// syncMedian returns how long a small write and its sync take on the disk of dir,
// in milliseconds: into a file that has its place already, as a journal's.
func syncMedian(dir string) (float64, error) {
	took, err := doctor.TimeSyncs(dir, syncs, time.Minute)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return load.SpreadOf(took, load.Millis).Median, nil
}

// echo measures the echo server, with frames and replies of the average size of a
// run, sent in the same way. At a fixed rate its latency tells something, its
// throughput does not.
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

// echoes sends to an echo server in a process of its own with as many processors.
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
