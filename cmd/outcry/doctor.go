package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"outcry/internal/doctor"
	"outcry/internal/memory"
	"outcry/internal/version"
)

const doctorUsage = `outcry doctor looks at the machine, the disk and the database that an exchange runs on, or is to
run on, and says what to change. It changes nothing and leaves no file behind. Run it as the server's
user, in the server's surroundings, best while the server runs.

Usage: outcry [--token-file FILE] [--tls-ca FILE] doctor [flags]

A token is shown to the HTTP side over TLS, or on this machine, alone.

Every line begins with ok, warn or bad. The exit status is 1 where something is bad.

Flags:
`

// errBad means that something is bad, and that this has been said.
var errBad = errors.New("something is bad")

// runDoctor is the command. a is what outcry's own flags say. It returns flag.ErrHelp,
// errPrinted, a *usageError, errBad, what is wrong with the token or the certificates, or
// what could not be written.
func runDoctor(args []string, a *access, stdout, stderr io.Writer) error {
	f := subcommand("doctor", doctorUsage, stderr)
	commit, _ := version.Commit()
	o := doctor.Options{Revision: commit}
	where := locating(f, "the local cluster below the data directory")
	asked := a.httpAddr // given before the command, or else in the environment
	if asked == standardHTTP && os.Getenv("OUTCRY_HTTP") == "" {
		asked = "" // nobody has asked for a server
	}
	f.StringVar(&o.HTTP, "http", asked, "`address` of a running server's HTTP side, also as OUTCRY_HTTP; empty for none")
	f.IntVar(&o.ConnectionsMax, "max-connections", 16384, "what the server's --max-connections is")
	f.IntVar(&o.HTTPConnectionsMax, "max-http-connections", 4096, "what the server's --max-http-connections is")
	f.Int64Var(&o.MemoryMax, "max-memory", 512<<20, "what the server's --max-memory is, in `bytes`")
	f.IntVar(&o.OpenOrdersMax, "max-open-orders", 4_000_000, "what the server's --max-open-orders is")
	f.IntVar(&o.AccountsMax, "max-accounts", 1_000_000, "what the server's --max-accounts is")
	f.IntVar(&o.SymbolsMax, "max-symbols", 100_000, "what the server's --max-symbols is")
	f.TextVar(&o.MemoryLimit, "memory-limit", memory.Limit{}, "what the server's --memory-limit is: `bytes`, auto or off")
	inJSON := f.Bool("json", false, "print the findings as JSON")
	at, err := where.parse(args)
	if err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return &usageError{fmt.Sprintf("doctor takes no arguments, not %d", f.NArg())}
	case o.ConnectionsMax < 1 || o.ConnectionsMax > 1<<20:
		return &usageError{fmt.Sprintf("--max-connections %d: must be from 1 to %d", o.ConnectionsMax, 1<<20)}
	case o.HTTPConnectionsMax < 1 || o.HTTPConnectionsMax > 1<<20:
		return &usageError{fmt.Sprintf("--max-http-connections %d: must be from 1 to %d", o.HTTPConnectionsMax, 1<<20)}
	case o.MemoryMax < 1<<20 || o.MemoryMax > 1<<50:
		return &usageError{fmt.Sprintf("--max-memory %d: must be from %d to %d", o.MemoryMax, 1<<20, int64(1)<<50)}
	}
	o.Data, o.DatabaseURL = at.data, at.url
	if o.HTTP != "" {
		how, err := a.options()
		if err != nil {
			return err
		}
		o.Token, o.TLS = how.Token, how.TLS
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	findings := doctor.Examine(ctx, o)
	if *inJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(findings)
	} else {
		err = printFindings(stdout, findings)
	}
	for _, found := range findings {
		if err == nil && found.Grade == doctor.Bad {
			err = errBad
		}
	}
	return err
}

// printFindings prints a line for each, and another one for what to change.
func printFindings(stdout io.Writer, findings []doctor.Finding) error {
	for _, found := range findings {
		if _, err := fmt.Fprintf(stdout, "%-4s  %-20s %s\n", found.Grade, found.Check, found.Value); err != nil {
			return err
		}
		if found.Advice != "" {
			fmt.Fprintf(stdout, "      %-20s → %s\n", "", found.Advice)
		}
	}
	return nil
}
