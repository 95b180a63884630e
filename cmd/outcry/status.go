package main

import (
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/remote"
	"outcry/internal/process/phrase"
)

// status prints how the exchange is doing. It returns cli.ErrAnswered if the exchange accepts no orders.
func (o *operator) status([]string) error {
	s, err := o.client.Status(o.ctx)
	if err != nil {
		return err
	}
	if err := o.print(s, func() { o.printStatus(&s) }); err != nil {
		return err
	}
	if !s.Ready {
		return cli.ErrAnswered
	}
	return nil
}

// printStatus prints the status as a table of one screen.
func (o *operator) printStatus(s *remote.Status) {
	w := tabwriter.NewWriter(o.stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	if s.Ready {
		line("ready", "yes, for %s", duration(s.UptimeSeconds))
	} else {
		line("ready", "NO: %s", s.Why)
	}
	line("version", "%s", s.Version)
	if x := s.Exchange; x != nil {
		printExchange(line, x, o.now)
	}
	if d := s.Disk; d != nil {
		line("disk", "%s of %s free", bytesOf(d.Available), bytesOf(d.Size))
	}
	line("memory", "%s", bytesOf(s.MemoryBytes))
}

// printExchange prints the lines that exist only while the exchange runs.
func printExchange(line func(name, format string, args ...any), x *remote.Exchange, now time.Time) {
	line("journal", "%s, %d of them synced; %s, ready for %s more", phrase.Number(int(x.Journal.Appended), "record"),
		x.Journal.Synced, phrase.Number(x.Journal.Segments, "segment"), bytesOf(uint64(max(0, x.Journal.RoomBytes))))
	if x.Journal.NoRoom != "" {
		line("", "NO ROOM: %s", x.Journal.NoRoom)
	}
	state := "up"
	if !x.Postgres.Up {
		state = "DOWN"
	}
	line("postgres", "%s, at record %d, behind by %s, %s", state, x.Postgres.Applied,
		phrase.Number(int(x.Postgres.LagRecords), "record"), duration(x.Postgres.LagSeconds))
	if l := x.Load; l != nil {
		line("load", "%.0f orders/s, %.0f requests/s, %s, p50 %s, p99 %s", l.OrdersPerSecond, l.RequestsPerSecond,
			phrase.Number(l.Connections, "connection"), duration(l.P50Seconds), duration(l.P99Seconds))
		for _, hit := range l.Limits {
			line("limit", "%s was hit %d times, the last time %s ago", hit.Limit, hit.Count,
				duration(now.Sub(time.Unix(hit.Last, 0)).Seconds()))
		}
	}
	line("books", "%s, %s, %s open", phrase.Number(int(x.Accounts), "account"), phrase.Number(int(x.Symbols), "symbol"),
		phrase.Number(int(x.OpenOrders), "order"))
	if x.HaltedSymbols > 0 {
		line("halted", "%s", phrase.Number(int(x.HaltedSymbols), "symbol"))
	}
	for _, h := range x.Halted {
		line("", "%s %s", h.Sym, since(&h.Halt))
	}
	if more := x.HaltedSymbols - int64(len(x.Halted)); more > 0 && len(x.Halted) > 0 {
		line("", "and %d more", more)
	}
	if x.MarketData != "" {
		line("market", "NO DATA: %s", x.MarketData)
	}
}

// duration formats seconds with about three digits.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if d >= 10*unit {
			return d.Round(unit).String()
		}
	}
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return "0s"
}

// bytesOf formats a number of bytes in a suitable unit.
func bytesOf(n uint64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatUint(n, 10) + " B"
	}
	v, units := float64(n)/unit, "KMGTPE"
	for v >= unit {
		v, units = v/unit, units[1:]
	}
	return fmt.Sprintf("%.3g %ciB", v, units[0])
}
