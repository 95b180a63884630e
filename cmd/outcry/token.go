package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"outcry/internal/auth"
)

const tokenUsage = `outcry token makes, lists and revokes the tokens that an exchange with --auth takes.
It works on the exchange's data directory; an exchange that runs follows within a
second, also on connections that are open.

Usage: outcry token add    [--data DIR] --scope SCOPE [--expires WHEN] [--note TEXT]
       outcry token list   [--data DIR]
       outcry token revoke [--data DIR] ID

  add prints the token, which cannot be shown again. SCOPE says what it is for:
    account:1,2   trade for these accounts, and read market data; account:* for all
    read          market data, also single orders, and metrics
    operate       as read; halt, resume, cancel for others, log level, profiles
    admin         everything, also <create>
    health        /healthz and /readyz alone
  WHEN is a duration, such as 720h, or a time, such as 2030-01-31T00:00:00Z.
  revoke takes the ID, which list shows: the middle part of a token.

Flags:
`

// runToken is the command. It returns flag.ErrHelp, errPrinted, a *usageError, or what
// went wrong.
func runToken(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return &usageError{"token takes add, list or revoke; outcry token --help"}
	}
	f := flag.NewFlagSet("outcry token", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, tokenUsage)
		f.PrintDefaults()
	}
	data := f.String("data", envOr("OUTCRY_DATA", "outcry-data"), "data `directory` of the exchange, also as OUTCRY_DATA")
	scope := f.String("scope", "", "what the token is for")
	expires := f.String("expires", "", "`when` it ends; empty for never")
	note := f.String("note", "", "whose it is, for people")
	verb := args[0]
	if verb == "add" || verb == "list" || verb == "revoke" {
		args = args[1:]
	}
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errPrinted
	}
	want := map[string]int{"add": 0, "list": 0, "revoke": 1}
	if n, known := want[verb]; !known {
		return &usageError{fmt.Sprintf("token takes add, list or revoke, not %s", shown(verb))}
	} else if f.NArg() != n {
		return &usageError{fmt.Sprintf("token %s takes %d arguments, not %d; outcry token --help", verb, n, f.NArg())}
	}
	switch verb {
	case "list":
		return listTokens(*data, stdout)
	case "revoke":
		if err := auth.Revoke(*data, f.Arg(0)); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "token %s revoked\n", f.Arg(0))
		return nil
	}
	return addToken(*data, *scope, *expires, *note, stdout, stderr)
}

// addToken prints a new token, and what there is to know about it elsewhere, so that
// the token can be put into a file.
func addToken(data, scope, expires, note string, stdout, stderr io.Writer) error {
	s, err := auth.ParseScope(scope)
	if err != nil {
		return &usageError{"--scope: " + err.Error()}
	}
	var until time.Time
	if expires != "" {
		if until, err = parseWhen(expires); err != nil {
			return err
		}
	}
	token, e, err := auth.Add(data, s, until, note)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, token)
	fmt.Fprintf(stderr, "token %s for %s, expires %s; it cannot be shown again\n", e.ID, e.Scope, untilText(e.Expires))
	return nil
}

// parseWhen reads a duration from now or a time.
func parseWhen(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, &usageError{
			fmt.Sprintf("--expires %q is neither a duration, such as 720h, nor a time, such as 2030-01-31T00:00:00Z", text)}
	}
	return t, nil
}

func untilText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

// listTokens prints what the file says, but no hashes.
func listTokens(data string, stdout io.Writer) error {
	all, err := auth.List(data)
	if err != nil {
		return err
	}
	for _, e := range all {
		expires := "expires " + untilText(e.Expires)
		if !e.Expires.IsZero() && time.Now().After(e.Expires) {
			expires = "expired " + untilText(e.Expires)
		}
		fmt.Fprintf(stdout, "%s  %s  created %s  %s  %s\n", e.ID, e.Scope, e.Created.Format(time.RFC3339), expires, e.Note)
	}
	return nil
}
