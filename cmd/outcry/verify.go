package main

import (
	"errors"
	"flag"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/verify"
	"outcry/internal/process/progress"
)

const verifyText = `The exchange must not be running, except with --live. Nothing is changed. The whole history is
executed again, and the result is compared with the tables.

With --live the exchange may continue to trade, also as a node of a cluster. What is verified is
one snapshot of the database, as of the record that "state" names, and the journal up to there.

The exit status is 0 if everything is right, 1 if something is wrong, and 2 if it could not be
checked.`

// prepareVerify declares the flags of the command verify and returns the function that runs it.
func prepareVerify(f *flag.FlagSet, c *cli.Client) func([]string) error {
	where := cli.Locating(f, "the local cluster below the data directory")
	live := f.Bool("live", false, "verify a snapshot of a running exchange")
	return func(words []string) error {
		at, err := where.Find()
		if err != nil {
			return err
		}
		if len(words) > 0 {
			at.Data = words[0]
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		line := progress.Start(c.Stderr)
		defer line.Stop()
		err = verify.Run(ctx, verify.Options{Dir: at.Data, DatabaseURL: at.URL, Live: *live, Out: c.Stdout, Progress: line})
		if errors.As(err, new(*verify.UncheckedError)) {
			return cli.Unchecked(err)
		}
		return err
	}
}
