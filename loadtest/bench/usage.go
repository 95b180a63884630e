package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"outcry/internal/load"
	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
	"outcry/loadtest/vegeta"
)

// usage is the processor time of everybody, and the server's memory.
type usage struct {
	server, postgres, client time.Duration
	resident                 int64
}

func (m *measurement) usage() (u usage, err error) {
	s, err := m.Usage()
	if err != nil {
		return u, err
	}
	return usage{s.CPU, m.Postgres.CPU(), clientCPU(), s.Resident}, nil
}

// clientCPU returns the processor time of this process so far.
func clientCPU() time.Duration {
	var self unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &self) // it fails on wrong arguments only
	return time.Duration(self.Utime.Nano() + self.Stime.Nano())
}

// syncs is how often the disk is tried.
const syncs = 100

// syncMedian returns how long a small write and its sync take on the disk of dir,
// in milliseconds: into a file that has its place already, as a journal's.
func syncMedian(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer f.Close()
	_, err = f.Write(make([]byte, syncs*4096))
	if err = errors.Join(err, f.Sync()); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	var took []time.Duration
	for i := range syncs {
		begun := time.Now()
		_, err := f.WriteAt([]byte("a small record"), int64(i)*4096)
		if err = errors.Join(err, datasync(f)); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return load.Millis(took[syncs/2]), nil
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
	in := int(r.BytesIn / r.Requests)
	cmd := exec.CommandContext(ctx, m.programs.Loadtest, append([]string{"echo", "-reply", strconv.Itoa(in)}, flags...)...)
	cmd.Env = append(os.Environ(), procs(m.job.GOMAXPROCS)...)
	stdin, err := cmd.StdinPipe() // the server ends with it
	if err != nil {
		return nil, fmt.Errorf("bench: echo: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: echo: %w", err)
	}
	if err := harness.Start(cmd); err != nil {
		return nil, fmt.Errorf("bench: echo: %w", err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("bench: echo: %w", err)
	}
	run := &scenario.Run{Addrs: []string{strings.TrimSpace(addr)}, Params: m.job.Params, Open: vegeta.Open(nil)}
	result, err := m.job.Scenario.Echo(ctx, run, r, echoTime)
	if err != nil {
		return nil, fmt.Errorf("bench: echo: %w", err)
	}
	return result, nil
}
