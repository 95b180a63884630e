package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/auth"
	"outcry/internal/exchange"
	"outcry/internal/operate/settings"
	"outcry/internal/process/phrase"
)

const classNewText = `Opens an account for each of N students, with the same cash and shares, and makes a token for
each and one of scope admin for the teacher. The tokens are in the file of --csv, which only its
owner can read: a line for each, account,token; nobody can show them again.

It works on the machine of an exchange that runs with --auth. All of it is done, or nothing: if an
account is there already, nothing changes. After an interruption, run the same command again: it
goes on with the tokens of the file. After outcry-lab class reset it opens the same accounts anew,
and students keep their tokens.`

// Bounds and times of a class.
const (
	classStudentsMax = 1000
	classSymbolsMax  = 100
	classTime        = 2 * time.Minute        // to create all accounts
	classKnownTime   = 10 * time.Second       // until the exchange has read a new token
	classKnownPoll   = 300 * time.Millisecond // the exchange reads the token file twice a second
	classAtOnce      = 200                    // commands in one frame
)

// classRef begins the refs of what a class opens and places, so that repeating the command does nothing twice.
const classRef = "class"

// holding is an amount of a symbol that each student gets.
type holding struct {
	symbol string
	shares api.Decimal
}

// classOptions are the flags and arguments of the command class new.
type classOptions struct {
	students, first int
	cash            api.Decimal
	shares          []holding
	csv             string
	data            string
}

// prepareClassNew declares the flags of the command class new and returns what runs it.
func prepareClassNew(f *flag.FlagSet, c *cli.Client) func([]string) error {
	data := cli.DataFlag(f)
	o := &classOptions{}
	cash := f.String("cash", "", "`dollars` that each account opens with")
	shares := f.String("shares", "", "`SYM=N,...`: shares that each account gets; the symbols are made")
	f.IntVar(&o.first, "first", 1, "`account` of the first student; the others follow")
	f.StringVar(&o.csv, "csv", "class.csv", "`file` for the tokens")
	return func(words []string) error {
		var err error
		if o.students, err = strconv.Atoi(words[0]); err != nil || o.students < 1 || o.students > classStudentsMax {
			return cli.Usage(fmt.Sprintf("class new %.20s: must be 1 to %d students", words[0], classStudentsMax))
		}
		if o.first < 1 || o.first > 1_000_000_000 {
			return cli.Usage(fmt.Sprintf("--first %d: must be from 1 to 1000000000", o.first))
		}
		if *cash == "" {
			return cli.Usage("--cash is missing: dollars that each account opens with")
		}
		if o.cash, err = api.ParseDecimal(*cash); err == nil && o.cash.Sign() < 0 {
			err = fmt.Errorf("%s is negative", o.cash)
		}
		if err != nil {
			return cli.Usage("--cash: " + err.Error())
		}
		if o.shares, err = parseHoldings(*shares); err != nil {
			return cli.Usage("--shares: " + err.Error())
		}
		if err := c.Access.CheckTimeout(); err != nil {
			return err
		}
		o.data = data()
		return newClass(c, o)
	}
}

// parseHoldings parses SYM=N,SYM=N.
func parseHoldings(text string) (all []holding, err error) {
	if text == "" {
		return nil, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		sym, n, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%.80q is not SYM=N", part)
		}
		if _, err := exchange.ParseSymbol(sym); err != nil {
			return nil, err
		}
		shares, err := api.ParseDecimal(n)
		switch {
		case err != nil:
			return nil, err
		case shares.Sign() <= 0:
			return nil, fmt.Errorf("%.80q: the number of shares must be positive", part)
		case seen[sym]:
			return nil, fmt.Errorf("%s is there twice", sym)
		case len(all) == classSymbolsMax:
			return nil, fmt.Errorf("more than %d symbols", classSymbolsMax)
		}
		seen[sym] = true
		all = append(all, holding{sym, shares})
	}
	return all, nil
}

// accounts returns the ids of the students' accounts.
func (o *classOptions) accounts() (ids []string) {
	for n := range o.students {
		ids = append(ids, strconv.Itoa(o.first+n))
	}
	return ids
}

// newClass creates the class, or continues an interrupted run.
func newClass(c *cli.Client, o *classOptions) error {
	if err := settings.RequireDir(o.data,
		"there is no data directory %s: name that of the exchange with --data", o.data); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, classTime)
	defer cancel()
	how, err := c.Access.Options()
	if err != nil {
		return err
	}
	if err := demandsTokens(ctx, c.Access.Addr, how); err != nil {
		return err
	}
	class, isNew, err := o.tokens()
	if err != nil {
		return err
	}
	if err := makeClass(c, ctx, o, class, how, isNew); err != nil {
		if isNew && !errors.As(err, new(*begunError)) {
			err = errors.Join(err, o.takeBack(class, err))
		}
		return ofAnother(o.data, err)
	}
	return nil
}

// takeBack removes the file of a class whose creation failed before anything was opened, and revokes its
// tokens. If why is that there was no permission to write the tokens, there are none to revoke.
func (o *classOptions) takeBack(class []auth.Issued, why error) error {
	if errors.Is(why, fs.ErrPermission) {
		return os.Remove(o.csv)
	}
	return errors.Join(auth.RevokeAll(o.data, class), os.Remove(o.csv))
}

// ofAnother returns err. If err means that this user may not use the data directory, it adds the directory's
// owner.
func ofAnother(data string, err error) error {
	info, wrong := os.Stat(data)
	if !errors.Is(err, fs.ErrPermission) || wrong != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return err
	}
	name := strconv.Itoa(int(owner.Uid))
	if found, err := user.LookupId(name); err == nil {
		name = found.Username
	}
	return fmt.Errorf("%w; run this as the user of the exchange, %s", err, name)
}

// begunError is a failure after which some of a class's accounts may exist.
type begunError struct{ error }

// Unwrap returns the cause of the failure.
func (e *begunError) Unwrap() error { return e.error }

// makeClass adds the tokens, and opens accounts and places shares that are still missing. It can be repeated
// after a failure. The error is a *begunError if something that was done remains.
func makeClass(c *cli.Client, ctx context.Context, o *classOptions, class []auth.Issued, how api.Options, isNew bool,
) error {
	has, err := auth.AddAll(o.data, class)
	if err != nil {
		return err
	}
	how.Token = class[0].Token
	x, err := dialKnown(ctx, c.Access.Addr, how)
	if errors.As(err, new(*api.Unauthorized)) {
		err = fmt.Errorf("%w; is %s the data directory of this exchange, and the token of %s not revoked?", err, o.data,
			class[0].Note)
	}
	if err != nil {
		return err
	}
	defer x.Close()
	if isNew {
		if err := nobodyThere(ctx, x, o.accounts()); err != nil {
			return err
		}
	}
	if err := o.open(ctx, x); err != nil {
		if strings.Contains(err.Error(), "has used ref "+classRef) {
			return &begunError{fmt.Errorf("%w\n%s is of a class that was opened with other cash or shares: give the same "+
				"ones, or another --csv and --first, or begin anew with outcry-lab class reset", err, o.csv)}
		}
		return &begunError{fmt.Errorf("%w\nthe class is not whole: run the same command again, which goes on", err)}
	}
	o.say(c, has == len(class))
	return nil
}

// say prints what the class has now. If all is false, some tokens were revoked.
func (o *classOptions) say(c *cli.Client, all bool) {
	with := []string{o.cash.String() + " dollars"}
	for _, h := range o.shares {
		with = append(with, h.shares.String()+" "+h.symbol)
	}
	fmt.Fprintf(c.Stdout, "%s, %d to %d, each with %s\n", phrase.Number(o.students, "account"), o.first,
		o.first+o.students-1, phrase.List(with, "and"))
	fmt.Fprintf(c.Stdout, "tokens are in %s, which only you can read; the first is yours, of scope admin\n", o.csv)
	if !all {
		fmt.Fprintf(c.Stdout, "some of them were revoked, and stay so; outcry token list shows those that are good\n")
	}
}

// demandsTokens returns nil if an exchange requires tokens. The error says that it does not, or that it does
// not answer.
func demandsTokens(ctx context.Context, addr string, how api.Options) error {
	how.Token, how.RetryTime, how.Log = "", -1, slog.New(slog.DiscardHandler)
	x, err := api.Dial(ctx, addr, how)
	if err == nil {
		defer x.Close()
		_, err = x.Do(ctx, api.ShowAccount("0"))
	}
	switch {
	case errors.As(err, new(*api.Unauthorized)):
		return nil
	case err != nil:
		return err
	}
	return errors.New("this exchange takes orders from everybody for every account: start it with --auth")
}

// dialKnown connects with a token that was just written. The error is a *client.Unauthorized if the exchange
// does not know the token within classKnownTime.
func dialKnown(ctx context.Context, addr string, how api.Options) (*api.Client, error) {
	for end := time.Now().Add(classKnownTime); ; {
		x, err := api.Dial(ctx, addr, how)
		if !errors.As(err, new(*api.Unauthorized)) || time.Now().After(end) {
			return x, err
		}
		select {
		case <-time.After(classKnownPoll):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// nobodyThere returns nil if the exchange has none of the accounts. The error names one that exists.
func nobodyThere(ctx context.Context, x *api.Client, accounts []string) error {
	var there []string
	for _, id := range accounts {
		results, err := x.Do(ctx, api.ShowAccount(id))
		if err != nil {
			return err
		}
		switch r := &results[0]; {
		case r.Refused == nil:
			there = append(there, id)
		case !strings.Contains(r.Refused.Text, "there is no account"):
			return r.Err()
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("%s: account %s is there already, and %d of the others; nothing is changed: choose others "+
			"with --first, or begin anew with outcry-lab class reset", x.Stats().Addr, there[0], len(there)-1)
	}
	return nil
}

// open opens the accounts and places the shares. Commands that were done with the class's refs before change
// nothing.
func (o *classOptions) open(ctx context.Context, x *api.Client) error {
	var commands []api.Command
	for _, id := range o.accounts() {
		commands = append(commands, api.OpenAccount(id, o.cash).WithRef(classRef))
		for _, h := range o.shares {
			commands = append(commands, api.Place(h.symbol, id, h.shares).WithRef(classRef+"-"+h.symbol))
		}
	}
	for some := range slices.Chunk(commands, classAtOnce) {
		results, err := x.Do(ctx, some...)
		if err != nil {
			return err
		}
		for i := range results {
			if err := results[i].Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
