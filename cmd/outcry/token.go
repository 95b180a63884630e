package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/auth"
	"outcry/internal/exchange"
	"outcry/internal/operate/settings"
)

const tokenAddText = `Works on the data directory of an exchange with --auth, which accepts the token within a second.
Prints the token, which cannot be shown again.

SCOPE is what the token is for:
  account:1,2   trade for these accounts, and read market data; account:* for all
  read          market data, also single orders, and metrics
  operate       as read; halt, resume, cancel for others, log level, profiles
  admin         everything, also <create>
  health        /healthz and /readyz only
With --hmac instead of --scope it makes a key for one account, for the Binance-shaped door, and prints it
and its secret on one line. The server must know the secret: it is in a file that only its owner reads.
WHEN is a duration, such as 720h, or a time, such as 2030-01-31T00:00:00Z.`

// tokenAdd declares the flags of the command token add and returns the function that runs it.
func tokenAdd(f *flag.FlagSet, c *cli.Client) func([]string) error {
	data := cli.DataFlag(f)
	scope := f.String("scope", "", "`scope`: what the token allows")
	hmac := f.String("hmac", "", "`account` for a new key, which signs requests")
	expires := f.String("expires", "", "`when` it expires; empty for never")
	note := f.String("note", "", "`text` for people, such as the owner's name")
	return func([]string) error {
		if *hmac != "" {
			if *scope != "" {
				return cli.Usage("give --hmac or --scope, not both")
			}
			return addKey(data(), *hmac, *expires, *note, c.Stdout, c.Stderr)
		}
		return addToken(data(), *scope, *expires, *note, c.Stdout, c.Stderr)
	}
}

// tokenList declares the flags of the command token list and returns the function that runs it.
func tokenList(f *flag.FlagSet, c *cli.Client) func([]string) error {
	data := cli.DataFlag(f)
	return func([]string) error { return listTokens(data(), c.Stdout) }
}

// tokenRevoke declares the flags of the command token revoke and returns the function that runs it.
func tokenRevoke(f *flag.FlagSet, c *cli.Client) func([]string) error {
	data := cli.DataFlag(f)
	return func(words []string) error {
		if err := auth.Revoke(data(), words[0]); err != nil {
			return err
		}
		fmt.Fprintf(c.Stdout, "token %s revoked\n", words[0])
		return nil
	}
}

// addToken prints a new token to stdout, and its details to stderr, so that stdout can be redirected to a
// token file.
func addToken(data, scope, expires, note string, stdout, stderr io.Writer) error {
	s, err := auth.ParseScope(scope)
	if err != nil {
		return cli.Usage("--scope: " + err.Error())
	}
	until, err := endOfNew(data, expires)
	if err != nil {
		return err
	}
	token, e, err := auth.Add(data, s, until, note)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, token)
	fmt.Fprintf(stderr, "token %s for %s, expires %s; it cannot be shown again\n", e.ID, e.Scope, untilText(e.Expires))
	return nil
}

// addKey prints a new key and its secret to stdout, and their details to stderr.
func addKey(data, account, expires, note string, stdout, stderr io.Writer) error {
	id, err := exchange.ParseAccountID(account)
	if err != nil {
		return cli.Usage("--hmac: " + err.Error())
	}
	until, err := endOfNew(data, expires)
	if err != nil {
		return err
	}
	secret, e, err := auth.AddKey(data, id, until, note)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, e.ID, secret)
	fmt.Fprintf(stderr, "key %s for %s, expires %s; its secret is not shown again\n", e.ID, e.Scope, untilText(e.Expires))
	return nil
}

// endOfNew returns when a new token or key expires; the zero time means never. It returns an error if expires
// is malformed, or if the data directory does not exist.
func endOfNew(data, expires string) (until time.Time, err error) {
	if expires != "" {
		if until, err = parseWhen(expires); err != nil {
			return time.Time{}, err
		}
	}
	return until, settings.RequireDir(data, "there is no data directory %s", data)
}

// parseWhen parses a duration from now, or a time.
func parseWhen(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, cli.Usage(fmt.Sprintf(
			"--expires %q is neither a duration, such as 720h, nor a time, such as 2030-01-31T00:00:00Z", text))
	}
	return t, nil
}

func untilText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

// listTokens prints the entries of the token file without their hashes.
func listTokens(data string, stdout io.Writer) error {
	all, err := auth.List(data)
	if err != nil {
		return err
	}
	keys, err := auth.ListKeys(data)
	if err != nil {
		return err
	}
	tokens := len(all)
	for i, e := range append(all, keys...) {
		scope := e.Scope.String()
		if i >= tokens {
			scope += " (hmac)"
		}
		expires := "expires " + untilText(e.Expires)
		if !e.Expires.IsZero() && time.Now().After(e.Expires) {
			expires = "expired " + untilText(e.Expires)
		}
		fmt.Fprintf(stdout, "%s  %s  created %s  %s  %s\n", e.ID, scope, e.Created.Format(time.RFC3339), expires, e.Note)
	}
	return nil
}
