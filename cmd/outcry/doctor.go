package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/doctor"
	"outcry/internal/process/memlimit"
	"outcry/internal/process/version"
)

const doctorText = `Looks at the machine, the disk and the database that an exchange runs on, or is to run on, and
says what to change. It changes nothing and leaves no file behind. Run it as the server's user,
in the server's environment, best while the server runs.

With --http it asks a running server too. A token is shown only over TLS, or on this machine.
Every line begins with ok, warn or bad. The exit status is 1 if something is bad.`

// prepareDoctor declares the flags of the command doctor and returns the function that runs it.
func prepareDoctor(f *flag.FlagSet, c *cli.Client) func([]string) error {
	commit, _ := version.Commit()
	o := doctor.Options{Revision: commit}
	where := cli.Locating(f, "the local cluster below the data directory")
	http := f.Lookup("http")
	http.DefValue, http.Usage = "", "`address` of a running server's HTTP side, HOST or HOST:PORT, "+
		"for a cluster, the addresses of all nodes: A,B,C; also as "+cli.HTTPVariable+"; empty for none"
	f.IntVar(&o.ConnectionsMax, "max-connections", 16384, "the server's --max-connections")
	f.IntVar(&o.HTTPConnectionsMax, "max-http-connections", 4096, "the server's --max-http-connections")
	memlimit.BytesVar(f, &o.MemoryMax, "max-memory", 512<<20, "the server's --max-memory, in `bytes`")
	f.IntVar(&o.OpenOrdersMax, "max-open-orders", 4_000_000, "the server's --max-open-orders")
	f.IntVar(&o.AccountsMax, "max-accounts", 1_000_000, "the server's --max-accounts")
	f.IntVar(&o.SymbolsMax, "max-symbols", 100_000, "the server's --max-symbols")
	f.TextVar(&o.MemoryLimit, "memory-limit", memlimit.Limit{}, "the server's --memory-limit: `bytes`, auto or off")
	inJSON := f.Bool("json", false, "print the findings as JSON")
	return func([]string) error {
		at, err := where.Find()
		if err != nil {
			return err
		}
		switch {
		case o.ConnectionsMax < 1 || o.ConnectionsMax > 1<<20:
			return cli.Usage(fmt.Sprintf("--max-connections %d: must be from 1 to %d", o.ConnectionsMax, 1<<20))
		case o.HTTPConnectionsMax < 1 || o.HTTPConnectionsMax > 1<<20:
			return cli.Usage(fmt.Sprintf("--max-http-connections %d: must be from 1 to %d", o.HTTPConnectionsMax, 1<<20))
		case o.MemoryMax < 1<<20 || o.MemoryMax > 1<<50:
			return cli.Usage(fmt.Sprintf("--max-memory %d: must be from %d to %d", o.MemoryMax, 1<<20, int64(1)<<50))
		}
		o.Data, o.DatabaseURL = at.Data, at.URL
		return runDoctor(o, &c.Access, *inJSON, c.Stdout)
	}
}

// runDoctor runs the checks and prints the findings.
func runDoctor(o doctor.Options, a *cli.Access, inJSON bool, stdout io.Writer) (err error) {
	if a.HTTPAsked && a.HTTPAddr != "" {
		how, err := a.Options()
		if err != nil {
			return err
		}
		o.HTTP, o.Token, o.TLS = a.HTTPAddr, how.Token, how.TLS
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	findings := doctor.Examine(ctx, o)
	if inJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(findings)
	} else {
		err = printFindings(stdout, findings)
	}
	for _, found := range findings {
		if err == nil && found.Grade == doctor.Bad {
			err = cli.ErrBad
		}
	}
	return err
}

// printFindings prints a line for each finding, and a line of advice after it if there is any.
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
