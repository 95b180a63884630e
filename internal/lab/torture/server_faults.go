package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// clockFault is the name of the fault that needs a server whose clock can be stepped.
const clockFault = "clock"

// serverFaults are all faults that a plan of Server may name. Connections cut in the middle of a frame or before a
// reply are part of every round: clients cut them.
var serverFaults = append([]fault[*server]{
	{name: "kill", short: 5, long: 185, about: "the server is killed; at times once more while it starts", ends: true,
		inject: (*server).kill},
	{name: "kill-behind", short: 1, long: 15,
		about: "Postgres is frozen while clients trade, then the server is killed: a long replay",
		ends:  true, early: true, inject: (*server).killLagging},
	{name: "stop", short: 1, long: 25, about: "SIGTERM under full load: exit status 0, complete tables", ends: true,
		inject: (*server).stopAndCheck},
	{name: "restart", short: 1, long: 25,
		about:  "SIGTERM under full load and an immediate start; clients reconnect and continue",
		inject: (*server).restart},
	{name: "postgres-kill", short: 2, long: 50,
		about: "the postmaster is killed while trading continues", inject: (*server).killPostgres},
	{name: "both-kill", short: 2, long: 50,
		about: "server and Postgres are killed at once", ends: true, inject: (*server).killBoth},
	{name: "postgres-freeze", short: 1, long: 15, about: "every process of Postgres is frozen for a while (SIGSTOP)",
		inject: (*server).freezePostgres},
	{name: "postgres-restart", short: 1, long: 15,
		about: "Postgres is restarted with connections open", inject: (*server).restartPostgres},
	{name: "postgres-slow", short: 1, long: 15,
		about: "every packet to and from Postgres is delayed", inject: (*server).slowPostgres},
	{name: "postgres-cut", short: 1, long: 15,
		about: "all connections to Postgres break", inject: (*server).cutPostgres},
	{name: clockFault, short: 1, long: 15,
		about: "the server's clock is stepped back and forth, then the server is killed", ends: true,
		inject: (*server).stepClock},
}, attackFaults()...)

func (s *server) kill(ctx context.Context) error {
	s.End.MayBeGone.Store(true)
	s.server.Kill()
	return s.killStarting(ctx)
}

// killStarting does nothing in three of four calls. In the fourth, it starts the server, kills it within 400 ms,
// before or soon after it is ready, and does so again with a chance of one in four.
func (s *server) killStarting(ctx context.Context) error {
	for s.Rand.IntN(4) == 0 {
		if err := s.launch(s.plain, anyPort); err != nil {
			return err
		}
		_ = wait(ctx, time.Duration(s.Rand.IntN(400))*time.Millisecond)
		s.server.Kill()
		s.report.KilledStarting++
	}
	return nil
}

func (s *server) killLagging(ctx context.Context) error {
	thaw := s.pg.Freeze()
	defer thaw()
	if err := s.letTrade(ctx); err != nil {
		return err
	}
	s.End.MayBeGone.Store(true)
	s.server.Kill()
	return nil
}

// restart stops the server in order and starts it again at the same address, while clients trade.
func (s *server) restart(ctx context.Context) error {
	s.End.ComesBack.Store(true)
	begun := time.Now()
	if err := s.stopServer(ctx); err != nil {
		return err
	}
	stopped := time.Now()
	if err := s.startAt(ctx, s.plain, s.server.XML); err != nil {
		return fmt.Errorf("the exchange does not come back: %w", err)
	}
	ready := time.Now()
	if err := s.letTrade(ctx); err != nil { // this ends the measured silence
		return err
	}
	s.End = new(audit.Ending)
	silence := s.LongestSilence()
	x := Restart{silence.Seconds(), stopped.Sub(begun).Seconds(), ready.Sub(stopped).Seconds()}
	s.report.Restarts = append(s.report.Restarts, x)
	fmt.Fprintf(s.Out, "restart: %.3f s without an answer; %.3f s to stop, %.3f s to start\n", x.Down, x.Stop, x.Start)
	if s.DownMax > 0 && silence >= s.DownMax {
		return fmt.Errorf("a restart took too long: %.3f s without an answer, %s are allowed", x.Down, s.DownMax)
	}
	return nil
}

func (s *server) killPostgres(ctx context.Context) error {
	s.pg.Kill()
	return wait(ctx, s.some(time.Second))
}

func (s *server) killBoth(ctx context.Context) error {
	s.End.MayBeGone.Store(true)
	if s.Rand.IntN(2) == 0 {
		s.pg.Kill()
		s.server.Kill()
	} else {
		s.server.Kill()
		s.pg.Kill()
	}
	return s.killStarting(ctx)
}

func (s *server) freezePostgres(ctx context.Context) error {
	thaw := s.pg.Freeze()
	defer thaw()
	return wait(ctx, s.some(3*time.Second))
}

func (s *server) restartPostgres(ctx context.Context) error {
	s.pg.Restart()
	return wait(ctx, s.some(time.Second))
}

func (s *server) slowPostgres(ctx context.Context) error {
	s.pg.Slow(s.some(20 * time.Millisecond))
	defer s.pg.Slow(0)
	return wait(ctx, s.some(2*time.Second))
}

func (s *server) cutPostgres(ctx context.Context) error {
	for range 1 + s.Rand.IntN(5) {
		s.pg.Cut()
		if err := wait(ctx, s.some(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// The server reads its clock in one place. This build adds the seconds in a file to it. The machine's clock is not
// changed.
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

func (s *server) clockFile() string { return filepath.Join(s.Dir, "clock-offset") }

// changeToSteppableClock replaces the server with one whose clock can be stepped.
func (s *server) changeToSteppableClock(ctx context.Context) error {
	s.End.MayBeGone.Store(true)
	s.server.Kill()
	err := s.startAt(ctx, s.clock, anyPort)
	s.End = new(audit.Ending)
	return err
}

func (s *server) stepClock(ctx context.Context) error {
	for range 5 {
		seconds := s.Rand.IntN(2*86400) - 86400
		file := s.clockFile() + ".new"
		if err := os.WriteFile(file, fmt.Append(nil, seconds), 0o600); err != nil {
			return fmt.Errorf("torture: step the clock: %w", err)
		}
		if err := os.Rename(file, s.clockFile()); err != nil {
			return fmt.Errorf("torture: step the clock: %w", err)
		}
		if err := wait(ctx, s.some(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return s.kill(ctx)
}
