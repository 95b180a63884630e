package torture

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// fault is one way to break an exchange.
type fault struct {
	about  string
	ends   bool // the server has ended afterwards and must be started again
	early  bool // injected before clients trade
	inject func(*runner, context.Context) error
}

// faults are all faults that a plan may name. Connections cut in the middle of a frame or before a reply
// are part of every round: clients cut them (client.go).
var faults map[string]fault

func init() {
	faults = map[string]fault{
		"kill": {"the server is killed; at times once more while it starts", true, false, (*runner).kill},
		"kill-behind": {"Postgres is frozen while clients trade, then the server is killed: a long replay",
			true, true, (*runner).killBehind},
		"stop": {"SIGTERM in full load: exit status 0, complete tables", true, false, (*runner).stopAndCheck},
		"restart": {"SIGTERM under full load and an immediate start; clients reconnect and continue", false, false,
			(*runner).restart},
		"postgres-kill": {"the postmaster is killed while trading continues", false, false, (*runner).killPostgres},
		"both-kill":     {"server and Postgres are killed at once", true, false, (*runner).killBoth},
		"postgres-freeze": {"every process of Postgres is frozen for a while (SIGSTOP)", false, false,
			(*runner).freezePostgres},
		"postgres-restart": {"Postgres is restarted with connections open", false, false, (*runner).restartPostgres},
		"postgres-slow":    {"every packet to and from Postgres is delayed", false, false, (*runner).slowPostgres},
		"postgres-cut":     {"all connections to Postgres break", false, false, (*runner).cutPostgres},
		"clock": {"the server's clock is stepped back and forth, then the server is killed", true, false,
			(*runner).stepClock},
	}
	attacks = allAttacks()
	for name, a := range attacks {
		faults[name] = fault{a.about, a.ends, true, a.inject(name)}
	}
}

// Faults returns a description of each fault, by name.
func Faults() map[string]string {
	all := map[string]string{}
	for name, f := range faults {
		all[name] = f.about
	}
	return all
}

// ParsePlan parses rounds of faults, such as "kill=8,stop=2". "abuse=1" means one round of each fault
// whose name begins with abuse. The error names the wrong part.
func ParsePlan(plan string) (map[string]int, error) {
	rounds := map[string]int{}
	for part := range strings.SplitSeq(plan, ",") {
		name, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		known := false
		for fault := range faults {
			if fault == name || name == "abuse" && isAbuse(fault) {
				rounds[fault] += n
				known = true
			}
		}
		if !known || err != nil || n < 0 {
			return nil, fmt.Errorf("torture: %q is not fault=rounds", part)
		}
	}
	return rounds, nil
}

// schedule returns the rounds in random order.
func schedule(plan map[string]int, r *rand.Rand) (rounds []string) {
	for _, name := range slices.Sorted(maps.Keys(plan)) {
		rounds = append(rounds, slices.Repeat([]string{name}, plan[name])...)
	}
	r.Shuffle(len(rounds), func(i, j int) { rounds[i], rounds[j] = rounds[j], rounds[i] })
	return rounds
}

func (r *runner) kill(ctx context.Context) error {
	r.End.MayBeGone.Store(true)
	r.server.Kill()
	return r.killStarting(ctx)
}

// killStarting does nothing three times in four. Otherwise it starts the server and kills it within 400 ms,
// before it is ready or soon after, and repeats that one time in four.
func (r *runner) killStarting(ctx context.Context) error {
	for r.Rand.IntN(4) == 0 {
		if err := r.launch(r.plain, anyPort); err != nil {
			return err
		}
		_ = wait(ctx, time.Duration(r.Rand.IntN(400))*time.Millisecond)
		r.server.Kill()
		r.report.KilledStarting++
	}
	return nil
}

func (r *runner) killBehind(ctx context.Context) error {
	thaw := r.pg.Freeze()
	defer thaw()
	if err := r.letTrade(ctx); err != nil {
		return err
	}
	r.End.MayBeGone.Store(true)
	r.server.Kill()
	return nil
}

// restart stops the server in order and starts it again at the same address, while clients trade.
func (r *runner) restart(ctx context.Context) error {
	r.End.ComesBack.Store(true)
	r.Listen()
	begun := time.Now()
	if err := r.stopServer(ctx); err != nil {
		return err
	}
	stopped := time.Now()
	if err := r.startAt(ctx, r.plain, r.server.XML); err != nil {
		return fmt.Errorf("the exchange does not come back: %w", err)
	}
	ready := time.Now()
	if err := r.letTrade(ctx); err != nil { // this ends the measured silence
		return err
	}
	r.End = new(audit.Ending)
	silence := r.LongestSilence()
	x := Restart{silence.Seconds(), stopped.Sub(begun).Seconds(), ready.Sub(stopped).Seconds()}
	r.report.Restarts = append(r.report.Restarts, x)
	fmt.Fprintf(r.Out, "restart: %.3f s without an answer; %.3f s to stop, %.3f s to start\n", x.Down, x.Stop, x.Start)
	if r.DownMax > 0 && silence >= r.DownMax {
		return fmt.Errorf("a restart took too long: %.3f s without an answer, %s are allowed", x.Down, r.DownMax)
	}
	return nil
}

func (r *runner) killPostgres(ctx context.Context) error {
	r.pg.Kill()
	return wait(ctx, r.some(time.Second))
}

func (r *runner) killBoth(ctx context.Context) error {
	r.End.MayBeGone.Store(true)
	if r.Rand.IntN(2) == 0 {
		r.pg.Kill()
		r.server.Kill()
	} else {
		r.server.Kill()
		r.pg.Kill()
	}
	return r.killStarting(ctx)
}

func (r *runner) freezePostgres(ctx context.Context) error {
	thaw := r.pg.Freeze()
	defer thaw()
	return wait(ctx, r.some(3*time.Second))
}

func (r *runner) restartPostgres(ctx context.Context) error {
	r.pg.Restart()
	return wait(ctx, r.some(time.Second))
}

func (r *runner) slowPostgres(ctx context.Context) error {
	r.pg.Slow(r.some(20 * time.Millisecond))
	defer r.pg.Slow(0)
	return wait(ctx, r.some(2*time.Second))
}

func (r *runner) cutPostgres(ctx context.Context) error {
	for range 1 + r.Rand.IntN(5) {
		r.pg.Cut()
		if err := wait(ctx, r.some(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// The server reads its clock in one place. This build adds to it the seconds in a file. The machine's
// clock is not changed.
const clockVariable = "OUTCRY_TORTURE_CLOCK"

var clockEdits = []harness.Edit{{
	File: "internal/engine", Imports: []string{"os", "strconv"},
	Old: "o.Now = func() int64 { return time.Now().UnixNano() }",
	New: `o.Now = func() int64 {
		b, _ := os.ReadFile(os.Getenv("` + clockVariable + `"))
		n, _ := strconv.ParseInt(string(b), 10, 64)
		return time.Now().UnixNano() + n*int64(time.Second)
	}`,
}}

func (r *runner) clockFile() string { return filepath.Join(r.Dir, "clock-offset") }

// changeToSteppableClock replaces the server by one whose clock can be stepped.
func (r *runner) changeToSteppableClock(ctx context.Context) error {
	r.End.MayBeGone.Store(true)
	r.server.Kill()
	err := r.startAt(ctx, r.clock, anyPort)
	r.End = new(audit.Ending)
	return err
}

func (r *runner) stepClock(ctx context.Context) error {
	for range 5 {
		seconds := r.Rand.IntN(2*86400) - 86400
		file := r.clockFile() + ".new"
		if err := os.WriteFile(file, fmt.Append(nil, seconds), 0o600); err != nil {
			return fmt.Errorf("torture: step the clock: %w", err)
		}
		if err := os.Rename(file, r.clockFile()); err != nil {
			return fmt.Errorf("torture: step the clock: %w", err)
		}
		if err := wait(ctx, r.some(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return r.kill(ctx)
}

// some returns a random duration up to most.
func (r *runner) some(most time.Duration) time.Duration {
	return time.Duration(r.Rand.Int64N(int64(most)))
}

// wait waits for d. It returns an error if ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
