package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	api "outcry/clients/go/client"
	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/load"
	"outcry/internal/process/phrase"
	"outcry/internal/process/progress"
)

// askTime bounds the first query to a server, which determines whether it is an Outcry.
const askTime = 3 * time.Second

// accountsEach is how many account ids are reserved for a run.
const accountsEach = 4096

// firstAccount returns the first account id of a run that starts now. It is below 2^31, and differs from those
// of all runs of the five days before, unless two start in the same second.
func firstAccount(now time.Time) uint64 { return uint64(now.Unix()%500_000+1) * accountsEach }

// comparison is a run without refs. It measures one server, alone or beside an Outcry and an echo server.
type comparison struct {
	*Options
	habits dialect.Habits
	first  uint64 // first account id of the run
	rows   []*Row
}

// find reports whether to measure without refs, and if so finds out the server's habits. It returns ctx's error,
// or an error if the server does not answer.
func (p *comparison) find(ctx context.Context) (plain bool, err error) {
	var known dialect.Known
	if p.Known != nil {
		known = *p.Known
	}
	plain = p.NoRefs || p.Beside || p.Known != nil || p.Experiment != ""
	if p.Client.Token != "" || p.Client.TLS != nil {
		return plain, nil // only Outcry supports tokens and TLS
	}
	for _, addr := range p.Addrs {
		if !plain {
			asks, stop := context.WithTimeout(ctx, askTime)
			refs, err := load.HasRefs(asks, load.Options{Addrs: []string{addr}}, p.Accounts+"00")
			stop()
			var refused *net.OpError
			if err == nil && refs {
				return false, nil
			} else if errors.As(err, &refused) && refused.Op == "dial" {
				continue
			}
		}
		p.habits, _, err = dialect.Probe(ctx, &dialect.Connector{Addr: addr}, p.fresh(), known)
		if err == nil || ctx.Err() != nil {
			return true, err
		}
	}
	if !plain {
		return false, nil // no server answers; the run with refs retries and reports it
	}
	return true, err
}

// ReadHabits reads the server's habits from a profile of outcry-lab grade.
func ReadHabits(path string) (known dialect.Known, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return known, err
	}
	cases, err := script.Builtin()
	if err != nil {
		return known, err
	}
	profile, err := grade.ReadProfile(text, cases)
	if err != nil {
		return known, err
	}
	return profile.Habits, nil
}

// fresh returns a generator of account ids for probing. They lie above those of the accounts that trade.
func (p *comparison) fresh() func() string {
	next := p.first + 2*connectionsMax
	return func() string { next++; return strconv.FormatUint(next, 10) }
}

// depth returns the number of frames in flight on each connection.
func (p *comparison) depth() int {
	if p.DepthGiven {
		return p.Depth
	}
	return 1
}

// workload returns the workload for a server.
func (p *comparison) workload(addrs []string, habits dialect.Habits, how api.Options) workload {
	depth := p.depth()
	if p.Experiment != "" {
		return p.newExperiment(addrs, load.Options{Habits: habits, Client: how})
	}
	return &load.Plain{Symbols: p.Symbols, Orders: uint64(p.Orders), Rate: p.Rate, First: p.first,
		Tag: "B" + strings.ToUpper(strconv.FormatUint(p.first, 36)) + "X",
		Options: load.Options{Addrs: addrs, Connections: p.Connections, Depth: depth, Duration: p.Duration,
			Habits: habits, Client: how}}
}

// run measures the servers and prints the result. It returns ErrWrong if a server handled an order wrongly.
func (p *comparison) run(ctx context.Context) error {
	line := progress.Start(p.Stderr)
	defer line.Stop()
	p.rows = []*Row{{Name: strings.Join(p.Addrs, ","), Kind: kindServer,
		load: p.workload(p.Addrs, p.habits, p.Client)}}
	rounds := 1
	if p.Beside {
		rounds = p.Rounds
		end, err := p.startBeside(ctx, line)
		defer end()
		if err != nil {
			return err
		}
	}
	for _, r := range p.rows {
		line.Say("preparing " + r.Name)
		if err := r.prepare(ctx); err != nil {
			return err
		}
	}
	for round := range rounds {
		for _, r := range p.rows {
			line.Say(fmt.Sprintf("round %d of %d: %s", round+1, rounds, r.Name))
			if err := r.turn(ctx, p); err != nil {
				return err
			}
		}
	}
	bad := false
	for _, r := range p.rows {
		line.Say("asking " + r.Name + " for its orders")
		r.conclude(ctx, p.rows[len(p.rows)-1])
		bad = bad || r.bad()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	line.Stop()
	if p.JSON {
		printJSON(p.Out, p.result(rounds))
	} else {
		p.print(p.Out)
	}
	if bad {
		return ErrWrong
	}
	return nil
}

// startBeside starts Outcry and the echo server, and adds their rows. end stops the servers that were started.
func (p *comparison) startBeside(ctx context.Context, line *progress.Line) (end func(), err error) {
	line.Say("starting Outcry")
	own, err := startOwn(ctx, p.Program)
	if err != nil {
		return func() {}, err
	}
	once := dialect.Habits{OneFrame: p.habits.OneFrame} // like the server: a connection for each frame
	p.rows = append(p.rows,
		&Row{Name: "Outcry", Kind: kindOutcry, load: p.workload([]string{own.addr}, once, api.Options{})},
		&Row{Name: "echo", Kind: kindEcho, load: p.workload(nil, once, api.Options{})})
	echo := p.rows[2]
	return func() {
		if echo.end != nil {
			echo.end()
		}
		own.end()
	}, nil
}

// result returns the result in the form that is printed as JSON.
func (p *comparison) result(rounds int) *Comparison {
	r := &Comparison{Version: 1, Machine: load.Machine(), Experiment: p.Experiment, Connections: p.connections(),
		Depth: p.depth(), Seconds: p.Duration.Seconds(), Rounds: rounds, Habits: p.habits, Servers: p.rows}
	return r
}

// Comparison is the JSON output of a run without refs.
type Comparison struct {
	Version     int            `json:"version"`
	Machine     string         `json:"machine"`
	Experiment  string         `json:"experiment,omitempty"`
	Connections int            `json:"connections"`
	Depth       int            `json:"depth"`
	Seconds     float64        `json:"seconds"` // length of a turn
	Rounds      int            `json:"rounds"`
	Habits      dialect.Habits `json:"habits"`
	Servers     []*Row         `json:"servers"`
}

// print prints the result as text.
func (p *comparison) print(w io.Writer) {
	if p.Experiment != "" {
		fmt.Fprintf(w, "%s: %s\n", p.Experiment, p.rows[0].load.(*experiment).scenario.About)
	}
	fmt.Fprintf(w, "%s, %d in flight on each; habits: %s\n", phrase.Number(p.connections(), "connection"), p.depth(),
		habitText(p.habits))
	t := load.Table{{"", p.unit(), "least", "most", "p50 ms", "p99 ms", "of echo", "asked for", "lost or wrong"}}
	if !p.Beside {
		t[0] = []string{"", p.unit(), "p50 ms", "p99 ms", "asked for", "lost or wrong"}
	}
	for _, r := range p.rows {
		row := []any{r.Name, fmt.Sprintf("%.0f", r.Rate), fmt.Sprintf("%.0f", r.Least), fmt.Sprintf("%.0f", r.Most),
			fmt.Sprintf("%.3g", r.P50), fmt.Sprintf("%.3g", r.P99), fmt.Sprintf("%.0f %%", 100*r.Share), r.Asked,
			r.Lost + r.Wrong + r.Doubled}
		switch {
		case !p.Beside:
			row = append(append(row[:2:2], row[4:6]...), row[7:]...)
		case r.Kind == kindEcho:
			row = row[:7]
		}
		t.Add(row...)
	}
	t.Write(w)
	for _, r := range p.rows {
		for _, text := range r.complaints() {
			fmt.Fprintf(w, "%s: %s\n", r.Name, text)
		}
	}
	if !p.Beside {
		fmt.Fprintln(w, "--beside measures Outcry and an echo server too")
	}
}

// habitText describes how a server deviates from the protocol.
func habitText(h dialect.Habits) string {
	var all []string
	for _, habit := range []struct {
		is   bool
		text string
	}{
		{h.AccountAttribute, "wants the attribute account"}, {h.CRLF, "wants CR LF"}, {h.Bare, "sends no length"},
		{h.WrongLength, "sends a wrong length"}, {h.OneFrame, "closes after a reply"}, {h.ResultRoot, "sends <result>"},
		{h.Whole, "accepts whole numbers only"}, {h.ErrorCloses, "closes after an error"},
	} {
		if habit.is {
			all = append(all, habit.text)
		}
	}
	if all == nil {
		return "those of the protocol"
	}
	return strings.Join(all, ", ")
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
