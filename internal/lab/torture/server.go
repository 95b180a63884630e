package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// Server is a single server.
var Server = &Kind{name: "torture", about: described(serverFaults), plans: named(serverFaults), planned: true,
	schedule: shuffled,
	command: func(o Options, plan string) string {
		return fmt.Sprintf("torture -seed %d -clients %d -load %s -large=%t -resting %d -down %s -plan %s",
			o.Seed, o.Clients, o.Load, o.Large, o.Resting, o.DownMax, plan)
	},
	begin: func(r *run, random *rand.Rand) system {
		r.report.ServerReport = new(ServerReport)
		return newServer(r, audit.NewSession(audit.Target{}, random))
	}}

// server is a single server with its Postgres.
type server struct {
	*run
	plain  string // path of the server
	clock  string // path of the server with a clock that can be stepped
	log    *os.File
	pg     *harness.Postgres
	server *harness.Server
	db     *pgx.Conn // connected directly, without the proxy

	client string            // path of outcry, used to verify
	abused *harness.Postgres // Postgres of the exchanges under attack; nil before the first attack
	abuser audit.Target      // how the abuser reaches the exchange
	token  string            // token of traders and checks; "" without --auth
	flags  []string          // additional flags of the server
	files  int               // descriptor limit of the server; 0 means that of this process
}

// newServer returns the server of a run. It does not start the server.
func newServer(r *run, clients *audit.Session) *server {
	s := &server{run: r}
	r.Session, r.tradeMax = clients, 4000
	r.slack = func() time.Duration { return s.patient(audit.ReplyTimeout) }
	r.gone = func() bool { return s.server.Gone() }
	r.logTail = func() string { return s.server.LogTail() }
	return s
}

// prepare builds the programs and starts everything.
func (s *server) prepare(ctx context.Context, root string) (err error) {
	build := func(command, dir string, edits []harness.Edit) (program string) {
		if err == nil {
			program, err = harness.Build(ctx, root, command, filepath.Join(s.Dir, dir), edits...)
		}
		return program
	}
	s.plain, s.client = build("./cmd/outcryd", "plain", s.Edits), build("./cmd/outcry", "plain", s.Edits)
	if s.Plan[clockFault] > 0 {
		s.clock = build("./cmd/outcryd", "clock", append(clockEdits, s.Edits...))
	}
	if err != nil {
		return err
	}
	if s.log, err = os.Create(filepath.Join(s.Dir, "outcryd.log")); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if s.pg, err = harness.StartPostgres(ctx, s.Dir); err != nil {
		return err
	}
	fill := func(ctx context.Context) error { return s.FillBooks(ctx, s.Resting) }
	return inTurn(ctx, s.start, s.OpenMarket, fill)
}

// round runs a round and returns a summary. A malicious client gets its own exchange to attack.
func (s *server) round(ctx context.Context, n int, name string) (summary string, err error) {
	f := find(serverFaults, name)
	if f.attack != nil {
		return s.abuseRound(ctx, n, f)
	}
	before := s.Counts()
	err = tradedRound(ctx, s.run, s, n, f)
	now := s.Counts()
	happened := now.UnknownHappened - before.UnknownHappened
	return fmt.Sprintf("%6d orders answered, %3d unknown, of which %3d happened; %6d executions checked",
		now.Answered-before.Answered, happened+now.UnknownNever-before.UnknownNever, happened, s.Checked().Executions), err
}

// arrange replaces the server with one whose clock can be stepped, if the fault needs it.
func (s *server) arrange(ctx context.Context, f *fault[*server]) error {
	if f.name == clockFault {
		return s.changeToSteppableClock(ctx)
	}
	return nil
}

func (s *server) trade(n int, stop <-chan struct{}) (wait func()) {
	return s.Trade(n, s.Clients, s.Seed, stop).Wait
}

// mend repairs nothing: faults with lasting damage end the server.
func (s *server) mend(_ context.Context, _ *fault[*server], injected error) error { return injected }

func (s *server) restore(ctx context.Context, f *fault[*server]) error {
	if !f.ends {
		return nil
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("the exchange does not come back: %w", err)
	}
	return nil
}

// start starts the server and waits until it accepts orders.
func (s *server) start(ctx context.Context) error {
	err := s.startAt(ctx, s.plain, anyPort)
	s.End = new(audit.Ending)
	return err
}

// startAt starts the server at an address and waits until it accepts orders. It leaves End, which says how the
// server may end, unchanged.
func (s *server) startAt(ctx context.Context, program, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	begun := time.Now()
	if err := s.launch(program, listen); err != nil {
		return err
	}
	if err := s.server.WaitReady(ctx); err != nil {
		return err
	}
	s.At = audit.Target{Addr: s.server.XML, Token: s.token}
	s.report.starts = append(s.report.starts, time.Since(begun))
	return nil
}

// launch starts the server at a client address and does not wait.
func (s *server) launch(program, listen string) (err error) {
	s.server, err = harness.Launch(harness.ServerOptions{
		Program: program, Data: s.data(), DatabaseURL: s.pg.URL(), Log: s.log, Token: s.token, Files: s.files,
		Flags: append([]string{"--listen=" + listen, "--segment=262144", "--closed-orders=1000", "--refs=200",
			"--stop-timeout=60s"}, s.flags...),
		Env: []string{clockVariable + "=" + s.clockFile()},
	})
	return err
}

// data returns the directory of the server's data.
func (s *server) data() string { return filepath.Join(s.Dir, "data") }

// finish stops the server in order and checks that the tables are complete.
func (s *server) finish(ctx context.Context) error { return s.stopAndCheck(ctx) }

// stopServer stops the server in order, and checks that every complete frame is answered, that the exit
// status is 0, and that the tables are complete.
func (s *server) stopServer(ctx context.Context) error {
	s.End.MayBeGone.Store(true)
	s.End.InOrder.Store(true)
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	return s.server.Stop(ctx)
}

// end ends the server and the connection to its tables.
func (s *server) end() {
	if s.db != nil {
		s.db.Close(context.Background())
	}
	if s.server != nil {
		s.server.Kill()
	}
}

func (s *server) cleanUp() error {
	s.end()
	if s.log != nil {
		s.log.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
	defer cancel()
	var err error
	for _, pg := range []*harness.Postgres{s.pg, s.abused} {
		if pg != nil {
			err = errors.Join(err, pg.Stop(ctx))
		}
	}
	return err
}

func (s *server) remove() error {
	if s.abused != nil {
		if err := harness.RemoveAll(s.abuseDir()); err != nil {
			return err
		}
	}
	return harness.RemoveAll(s.Dir)
}
