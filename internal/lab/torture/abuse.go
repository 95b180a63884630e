package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// The abuse faults: attacks by one client that uses only its own rights. Each round has its own exchange, with
// limits that suit the size of the attack. Traders continue during the attack: their answers are checked as in
// every round, and must not stop. Response times are not judged, but the report has the p99 of the traders' frames
// during the attack and before it.

const (
	abusePrefix = "abuse-"

	abuseSym   = "ABUSE"
	abuserName = "801" // has a dollar, and shares of abuseSym
	takerName  = "802" // also the abuser's; has cash, and no shares
	idleName   = "803" // has no open orders

	// memorySmall and memoryLarge are the --max-memory of an exchange under attack. Its resident memory
	// may grow by twice that, plus tradeGrow for traders' orders and the garbage collector.
	memorySmall, memoryLarge = 64 << 20, 512 << 20
	frameSmall, frameLarge   = 1 << 20, 4 << 20 // --max-frame
	tradeGrow                = 192 << 20

	quietSmall = 300 * time.Millisecond // how long traders trade before the attack
	quietLarge = 5 * time.Second
	usagePoll  = 5 * time.Millisecond

	largePatience = 10
	keptAnswers   = 200 // answers to traders' orders that must arrive during an attack
)

func isAbuse(fault string) bool { return strings.HasPrefix(fault, abusePrefix) }

// size returns small or large, depending on the configured size of attacks.
func (s *server) size(small, large int) int {
	if s.Large {
		return large
	}
	return small
}

// patient returns how long to wait. d suits thousands of orders; a large attack has millions.
func (s *server) patient(d time.Duration) time.Duration {
	return time.Duration(s.size(1, largePatience)) * d
}

// Abuse is the result of a round of abuse. Times are in milliseconds, memory in MiB.
type Abuse struct {
	Fault     string           `json:"fault"`
	Auth      bool             `json:"auth"` // the abuser had only a token that trades for its accounts
	Note      string           `json:"note"` // what was done, and how often
	Quiet     float64          `json:"traders_p99_without_ms"`
	P99       float64          `json:"traders_p99_ms"`
	Max       float64          `json:"traders_max_ms"`
	Frames    int64            `json:"traders_frames"` // during the attack
	Probes    map[string]Waits `json:"probes,omitempty"`
	Resident  int64            `json:"resident_before_mib"`
	Peak      int64            `json:"resident_peak_mib"`
	FilesPeak int              `json:"descriptors_peak"`
}

// Waits summarize the durations of an operation, in milliseconds.
type Waits struct {
	Count int64   `json:"count"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

func waits(h *hdrhistogram.Histogram) Waits {
	return Waits{h.TotalCount(), millis(h.ValueAtQuantile(99)), millis(h.Max())}
}

// String returns the result in a line.
func (a Abuse) String() string {
	how := ""
	if a.Auth {
		how = ", with a token"
	}
	return fmt.Sprintf("%s%s; p99 %.1f ms of %d frames beside it (%.1f ms without); %d MiB, %d descriptors at most",
		a.Note, how, a.P99, a.Frames, a.Quiet, a.Peak, a.FilesPeak)
}

// abuseDir returns the directory of exchanges under attack.
func (s *server) abuseDir() string { return filepath.Join(s.Dir, "abuse") }

// abuseRound starts a fresh exchange with the market and the abuser's accounts, runs a round of the fault
// on it, stops it in order, and returns a summary.
func (s *server) abuseRound(ctx context.Context, n int, f *fault[*server]) (summary string, err error) {
	if s.abused == nil {
		if s.abused, err = harness.StartPostgres(ctx, s.abuseDir()); err != nil {
			return "", err
		}
	}
	own := *s.run
	sub := newServer(&own, audit.NewSession(audit.Target{}, rand.New(rand.NewPCG(s.Seed, uint64(n)<<32|1)), abuserName,
		takerName))
	sub.plain, sub.client, sub.log, sub.pg = s.plain, s.client, s.log, s.abused
	sub.Dir, sub.NoCreates = s.abuseDir(), f.attack.noCreates
	defer sub.pg.Find()
	defer sub.end()
	settings := func(ctx context.Context) error { return sub.setFlags(ctx, f.attack) }
	round := func(ctx context.Context) error { return tradedRound(ctx, sub.run, sub, n, f) }
	err = inTurn(ctx, sub.empty, settings, sub.start, sub.OpenMarket, sub.openAbuser, round, sub.stopAndCheck)
	if err != nil {
		return "", err
	}
	s.report.add(sub.Session)
	return s.abuseReport().String(), nil
}

// empty removes the data of the previous exchange.
func (s *server) empty(ctx context.Context) (err error) {
	if err := os.RemoveAll(s.data()); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if s.db, err = s.connect(ctx); err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, "DROP SCHEMA IF EXISTS public, outcry CASCADE; CREATE SCHEMA public"); err != nil {
		return fmt.Errorf("torture: empty the database: %w", err)
	}
	return nil
}

// setFlags sets the server's flags for an attack.
func (s *server) setFlags(ctx context.Context, a *attack) (err error) {
	var flags []string
	for _, x := range append(anyFlags, a.flags...) {
		flags = append(flags, fmt.Sprintf(x.format, s.size(x.small, x.large)))
	}
	if a.auth && s.Rand.IntN(2) == 0 {
		if s.token, s.abuser.Token, err = s.makeTokens(ctx); err != nil {
			return err
		}
		flags = append(flags, "--auth")
	}
	if a.files {
		s.files = s.idleConnections() - idleBeyond
	}
	s.flags, err = knownFlags(ctx, s.plain, flags)
	return err
}

// openAbuser opens the abuser's accounts.
func (s *server) openAbuser(ctx context.Context) error {
	s.abuser.Addr = s.server.XML
	c := new(wire.Create)
	s.Account(c, abuserName, 1)
	s.Account(c, takerName, 1_000_000)
	s.Account(c, idleName, 1)
	s.Deposit(c, abuseSym, []string{abuserName}, 1_000_000)
	return s.MustCreate(ctx, c)
}

// makeTokens makes a token with all rights and one for only the abuser's accounts.
func (s *server) makeTokens(ctx context.Context) (admin, little string, err error) {
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return "", "", fmt.Errorf("torture: %w", err)
	}
	tokens := make([]string, 2)
	for i, scope := range []string{"admin", "account:" + abuserName + "," + takerName} {
		out, err := exec.CommandContext(ctx, s.client, "token", "add", "--data", s.data(), "--scope", scope).Output()
		if err != nil {
			return "", "", fmt.Errorf("torture: make a token: %w", err)
		}
		tokens[i] = strings.TrimSpace(string(out))
	}
	return tokens[0], tokens[1], nil
}

// knownFlags returns the flags that the program supports, so that older versions can be attacked, too.
func knownFlags(ctx context.Context, program string, flags []string) (known []string, err error) {
	help, err := exec.CommandContext(ctx, program, "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("torture: %s --help: %w", program, err)
	}
	for _, f := range flags {
		name, _, _ := strings.Cut(f, "=")
		if regexp.MustCompile(`(?m)^  --?` + strings.TrimPrefix(name, "--") + `( |$)`).Match(help) {
			known = append(known, f)
		}
	}
	return known, nil
}

// inject lets traders trade for a while, attacks, and judges the outcome: the process is the same, its
// memory stays within bounds, and traders continue.
func (a attack) inject(s *server, ctx context.Context) error {
	if err := wait(ctx, time.Duration(s.size(int(quietSmall), int(quietLarge)))); err != nil {
		return err
	}
	before, err := s.server.Usage()
	if err != nil {
		return err
	}
	found := Abuse{Fault: a.name, Auth: s.abuser.Token != "", Resident: before.Resident >> 20, Probes: map[string]Waits{}}
	found.Quiet = millis(s.CutPace().ValueAtQuantile(99))
	s.report.Abuse = append(s.report.Abuse, found)
	watch := watchUsage(s.server)
	if err = a.run(s, ctx); err == nil && !a.ends && !a.restarts {
		err = s.keepTrading(ctx)
	}
	peak := watch()
	pace, at := s.CutPace(), s.abuseReport()
	at.P99, at.Max, at.Frames = millis(pace.ValueAtQuantile(99)), millis(pace.Max()), pace.TotalCount()
	at.Peak, at.FilesPeak = peak.Resident>>20, peak.Files
	if !a.ends && s.server.Gone() {
		return fmt.Errorf("the exchange ended by itself (%w); its log ends with:\n%s", errors.Join(err), s.server.LogTail())
	}
	if err != nil {
		return err
	}
	grow := 2*s.size(memorySmall, memoryLarge) + tradeGrow + s.size(a.grow.small, a.grow.large)
	return judgeUsage(before, peak, int64(grow), s.files)
}

// abuseReport returns the report of the current round.
func (s *server) abuseReport() *Abuse { return &s.report.Abuse[len(s.report.Abuse)-1] }

// summarize sets the report's note on the current round.
func (s *server) summarize(format string, args ...any) {
	s.abuseReport().Note = fmt.Sprintf(format, args...)
}

func millis(nanoseconds int64) float64 { return float64(nanoseconds) / 1e6 }

// judgeUsage returns an error if memory or descriptors exceeded their bounds. files 0 means no bound.
func judgeUsage(before, peak harness.Usage, grow int64, files int) error {
	switch {
	case peak.Resident > before.Resident+grow:
		return fmt.Errorf("the server's memory grew from %d MiB to %d MiB; the limit of its growth is %d MiB",
			before.Resident>>20,
			peak.Resident>>20, grow>>20)
	case files > 0 && peak.Files > files:
		return fmt.Errorf("the server had %d descriptors, of %d", peak.Files, files)
	}
	return nil
}

// watchUsage samples the server's usage until stop is called, which returns the peak.
func watchUsage(s *harness.Server) (stop func() harness.Usage) {
	var peak harness.Usage
	end := harness.Every(usagePoll, func() {
		if u, err := s.Usage(); err == nil { // the server may have ended
			peak.Resident, peak.Files = max(peak.Resident, u.Resident), max(peak.Files, u.Files)
		}
	})
	return func() harness.Usage { end(); return peak }
}

// keepTrading waits until traders have received keptAnswers more answers.
func (s *server) keepTrading(ctx context.Context) error { return s.awaitAnswers(ctx, keptAnswers) }
