package sweep

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"outcry/internal/load/scenario"
)

// Check returns an error that names the first parameter of a job that cannot be.
func (j Job) Check() error {
	p := j.Params
	for _, v := range []struct {
		name             string
		value, min, most int
	}{
		{"clients", p.Clients, 1, 50_000},
		{"depth", p.Depth, 1, 10_000},
		{"requests", p.Requests, 0, 1 << 30},
		{"rate", p.Rate, 0, 10_000_000},
		{"symbols", p.Symbols, 1, 100_000},
		{"accounts", p.Accounts, 1, 10_000_000},
		{"orders", p.Orders, 1, 100_000_000},
		{"per_frame", p.PerFrame, 1, 10_000},
		{"procs", j.GOMAXPROCS, 0, 1024},
		{"idle", p.Idle, 0, 15_000},
		{"readers", p.Readers, 0, 1000},
		{"history", p.History, 0, 1_000_000_000},
	} {
		if !slices.Contains(j.Scenario.Uses, v.name) && !slices.Contains([]string{"procs", "idle", "readers", "history"}, v.name) {
			continue
		}
		if v.value < v.min || v.value > v.most {
			return fmt.Errorf("-%s %d: must be from %d to %d", v.name, v.value, v.min, v.most)
		}
	}
	if p.Requests == 0 && p.Duration <= 0 {
		return errors.New("-requests or -duration is needed, or the run has no end")
	}
	if p.Rate > 0 && p.Duration <= 0 {
		return errors.New("-rate needs -duration")
	}
	return nil
}

// Write writes the point for people.
func (p *Point) Write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintln(t)
	row("scenario", "%s, GOMAXPROCS %s, seed %d", p.Scenario, procsText(p.GOMAXPROCS), p.Seed)
	row("requests", "%d in %.2f s, %d unexpected replies %s", p.Requests, p.Seconds, p.Errors, p.Example)
	row("throughput", "%.0f requests/s, %.0f commands/s; %.0f requests/s until Postgres had everything", p.Rate, p.Commands, p.Persisted)
	row("latency", "p50 %.3f ms, p90 %.3f, p99 %.3f, p99.9 %.3f, longest %.1f (p99 from sending %.3f)", p.P50, p.P90, p.P99, p.P999, p.Max, p.SentP99)
	row("echo", "%.0f requests/s, p50 %.3f ms, p99 %.3f: the exchange does %s of it", p.EchoRate, p.EchoP50, p.EchoP99, ShareText(p.Params, p.EchoShare))
	if p.SyncedEchoRate > 0 {
		row("with a journal", "%.0f requests/s: the exchange does %s of it", p.SyncedEchoRate, ShareText(p.Params, p.SyncedEchoShare))
	}
	row("processor time", "%.1f µs a request in the server (%.1f until the last reply), %.1f in Postgres, %.1f in the client", p.ServerCPU, p.ServerCPUSending, p.PostgresCPU, p.ClientCPU)
	row("Postgres", "%.0f records behind at the end, %.2f s until it had everything", p.LagEnd, p.CatchUp)
	if p.Params.Readers > 0 {
		row("readers", "%d of the market data stream received %.1f MB a second", p.Params.Readers, p.StreamBytes/p.Seconds/1e6)
	}
	row("memory", "%.0f MB in the server; a small write and its sync take %.3f ms on this disk", float64(p.ServerBytes)/(1<<20), p.SyncMedian)
	for _, reason := range sortedKeys(p.Refusals) {
		row("refused", "%d × %s", p.Refusals[reason], reason)
	}
	if p.Agrees {
		row("agreement", "the exchange and its tables hold what clients were told")
	} else {
		row("agreement", "NONE: %s", p.Differs)
	}
}

// ShareText writes a share of what the echo server does. At a fixed rate it says
// nothing.
func ShareText(p scenario.Params, share float64) string {
	if p.Rate > 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// Grouped writes a number with a comma between groups of three digits.
func Grouped(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func sortedKeys(m map[string]uint64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func procsText(n int) string {
	if n == 0 {
		return "default"
	}
	return fmt.Sprint(n)
}
