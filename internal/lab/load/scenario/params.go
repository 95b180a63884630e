package scenario

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"
)

// number describes a numeric parameter: its flag, bounds and help text.
type number struct {
	name      string
	value     *int
	min, most int
	about     string
}

// numbers describes the parameters that s uses, and those that every scenario has.
func (s Scenario) numbers(p *Params) []number {
	own := []number{
		{"clients", &p.Clients, 1, 50_000, "`connections` at once"},
		{"depth", &p.Depth, 1, 10_000, "unanswered frames on each connection"},
		{"requests", &p.Requests, 0, 1 << 30, "frames of each client; 0 with a duration"},
		{"rate", &p.Rate, 0, 10_000_000, "frames a second of all clients together; 0: as many as possible"},
		{"symbols", &p.Symbols, 1, 100_000, "symbols that are traded"},
		{"accounts", &p.Accounts, 1, 10_000_000, "accounts that are opened beforehand"},
		{"orders", &p.Orders, 1, 100_000_000, "orders that rest in the books from the start"},
		{"per_frame", &p.PerFrame, 1, 10_000, "commands of each frame"},
	}
	own = slices.DeleteFunc(own, func(n number) bool { return !slices.Contains(s.Uses, n.name) })
	return append(own,
		number{"history", &p.History, 0, 1_000_000_000, "`orders` that are executed beforehand"},
		number{"idle", &p.Idle, 0, 15_000, "further `connections`, which send nothing"},
		number{"readers", &p.Readers, 0, 1000, "`readers` of the market data stream"})
}

// Flags declares the flags of the parameters that the scenario uses.
func (s Scenario) Flags(f *flag.FlagSet, p *Params) {
	for _, n := range s.numbers(p) {
		f.IntVar(n.value, n.name, *n.value, n.about)
	}
	if slices.Contains(s.Uses, "duration") {
		f.DurationVar(&p.Duration, "duration", p.Duration, "how long to send, instead of a number of requests")
	}
	if slices.Contains(s.Uses, "pause") {
		f.DurationVar(&p.Pause, "pause", p.Pause, "`delay` between two requests of a client")
	}
	f.BoolVar(&p.Refs, "refs", false, "each order of a market has its own ref")
	f.BoolVar(&p.Paused, "paused", false, "Postgres is frozen during the measurement")
}

// pauseMax is the longest pause.
const pauseMax = time.Minute

// Check returns an error that names the first invalid parameter.
func (s Scenario) Check(p Params) error {
	for _, n := range s.numbers(&p) {
		if *n.value < n.min || *n.value > n.most {
			return fmt.Errorf("-%s %d: must be from %d to %d", n.name, *n.value, n.min, n.most)
		}
	}
	if p.Pause < 0 || p.Pause > pauseMax {
		return fmt.Errorf("-pause %s: must be from 0 to %s", p.Pause, pauseMax)
	}
	if p.Requests == 0 && p.Duration <= 0 {
		return errors.New("-requests or -duration is required")
	}
	if p.Rate > 0 && p.Duration <= 0 {
		return errors.New("-rate needs -duration")
	}
	return nil
}

// String returns the parameters in a line that distinguishes the runs of one scenario.
func (p Params) String() string {
	text := fmt.Sprintf("%d clients", p.Clients)
	if p.Clients == 1 {
		text = "1 client"
	}
	for _, part := range []struct {
		there bool
		text  string
	}{
		{p.Depth > 1, fmt.Sprintf(" × %d", p.Depth)},
		{p.Pause > 0, fmt.Sprintf(", pauses of %s", p.Pause)},
		{p.Rate > 0, fmt.Sprintf(", %d/s", p.Rate)},
		{p.History > 0, fmt.Sprintf(", after %d orders", p.History)},
		{p.Idle > 0, fmt.Sprintf(", %d idle", p.Idle)},
		{p.Readers > 0, fmt.Sprintf(", %d readers", p.Readers)},
		{p.Paused, ", Postgres paused"},
	} {
		if part.there {
			text += part.text
		}
	}
	return text
}
