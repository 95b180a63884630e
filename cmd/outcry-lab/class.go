package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/lab/class"
)

const classNewText = `Opens an account for each of N students, with the same cash and shares, and makes a token for
each and one of scope admin for the teacher. The tokens are in the file of --csv, which only its
owner can read: a line for each, account,token. They cannot be shown again.

It works on the machine of an exchange that runs with --auth. All of it is done, or nothing: if an
account is there already, nothing changes. After an interruption, run the same command again: it
continues with the tokens of the file. After outcry-lab class reset it opens the same accounts
again, and students keep their tokens.`

// prepareClassNew declares the flags of the command class new and returns the function that runs it.
func prepareClassNew(f *flag.FlagSet, c *cli.Client) func([]string) error {
	data := cli.DataFlag(f)
	o := class.Options{Out: c.Stdout}
	cash := f.String("cash", "", "`dollars` that each account opens with")
	shares := f.String("shares", "", "`SYM=N,...`: shares that each account gets; the symbols are made")
	f.IntVar(&o.First, "first", 1, "`account` of the first student; the others follow")
	f.StringVar(&o.CSV, "csv", "class.csv", "`file` for the tokens")
	return func(words []string) error {
		var err error
		if o.Students, err = strconv.Atoi(words[0]); err != nil || o.Students < 1 || o.Students > class.StudentsMax {
			return cli.Usage(fmt.Sprintf("class new %.20s: must be 1 to %d students", words[0], class.StudentsMax))
		}
		if o.First < 1 || o.First > 1_000_000_000 {
			return cli.Usage(fmt.Sprintf("--first %d: must be from 1 to 1000000000", o.First))
		}
		if *cash == "" {
			return cli.Usage("--cash is missing: dollars that each account opens with")
		}
		if o.Cash, err = api.ParseDecimal(*cash); err == nil && o.Cash.Sign() < 0 {
			err = fmt.Errorf("%s is negative", o.Cash)
		}
		if err != nil {
			return cli.Usage("--cash: " + err.Error())
		}
		if o.Shares, err = class.ParseHoldings(*shares); err != nil {
			return cli.Usage("--shares: " + err.Error())
		}
		if err := c.Access.CheckTimeout(); err != nil {
			return err
		}
		o.Data, o.Addr = data(), c.Access.Addr
		if o.Client, err = c.Access.Options(); err != nil {
			return err
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		return class.New(ctx, o)
	}
}

const classResetText = `Resets a stopped exchange with a local Postgres: its data directory is renamed, as a backup that
can be started again at any time, and a new one has the same tokens and nothing else. Start the
exchange again and repeat outcry-lab class new: it opens the accounts again, and students keep
their tokens.

It asks before it changes anything, unless --yes is given.`

// prepareClassReset declares the flags of the command class reset and returns the function that runs it.
func prepareClassReset(f *flag.FlagSet, c *cli.Client) func([]string) error {
	where := cli.Locating(f, "the local cluster below the data directory")
	yes := f.Bool("yes", false, "do not ask")
	return func([]string) error {
		at, err := where.Find()
		if err != nil {
			return err
		}
		if at.URL != "" {
			return errors.New("the exchange has a database elsewhere, which is not reset: take an outcry backup, " +
				"and start with an empty database and directory")
		}
		data, err := filepath.Abs(at.Data)
		if err != nil {
			return err
		}
		return class.Reset(class.ResetOptions{Data: data, Yes: *yes, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr})
	}
}
