// Package class opens the accounts of a class, creates a token for each student, and resets the class's exchange, as
// outcry-lab class does.
package class

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"outcry/internal/auth"
	"outcry/internal/exchange"
	"outcry/internal/operate/settings"
	"outcry/internal/process/phrase"
)

// Limits and timeouts for setting up a class.
const (
	StudentsMax = 1000

	symbolsMax = 100
	newTimeout = 2 * time.Minute        // to create all accounts
	knownTime  = 10 * time.Second       // until the exchange has read a new token
	knownPoll  = 300 * time.Millisecond // the exchange reads the token file twice a second
	atOnce     = 200                    // commands in one frame
)

// ref is the prefix of the refs of a class's commands. Because of the refs, a repeated command changes nothing.
const ref = "class"

// Holding is an amount of a symbol that each student gets.
type Holding struct {
	Symbol string
	Shares api.Decimal
}

// Options describe the class that New creates, and the exchange.
type Options struct {
	Students int // 1 to StudentsMax
	First    int // account of the first student; the others follow
	Cash     api.Decimal
	Shares   []Holding
	CSV      string // path of the file for the tokens
	Data     string // data directory of the exchange
	Addr     string // address of the exchange
	Client   api.Options
	Out      io.Writer // gets a summary of the class
}

// New creates the class, or continues an interrupted run.
func New(ctx context.Context, o Options) error {
	if err := settings.RequireDir(o.Data,
		"there is no data directory %s: name that of the exchange with --data", o.Data); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, newTimeout)
	defer cancel()
	if err := demandsTokens(ctx, o.Addr, o.Client); err != nil {
		return err
	}
	class, isNew, err := o.tokens()
	if err != nil {
		return err
	}
	if err := o.make(ctx, class, isNew); err != nil {
		if isNew && !errors.As(err, new(*begunError)) {
			err = errors.Join(err, o.undo(class, err))
		}
		return ofAnother(o.Data, err)
	}
	return nil
}

// ParseHoldings parses SYM=N,SYM=N.
func ParseHoldings(text string) (all []Holding, err error) {
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
			return nil, fmt.Errorf("%s is given twice", sym)
		case len(all) == symbolsMax:
			return nil, fmt.Errorf("more than %d symbols", symbolsMax)
		}
		seen[sym] = true
		all = append(all, Holding{sym, shares})
	}
	return all, nil
}

// accounts returns the ids of the students' accounts.
func (o *Options) accounts() (ids []string) {
	for n := range o.Students {
		ids = append(ids, strconv.Itoa(o.First+n))
	}
	return ids
}

// undo removes the file of a class whose creation failed before anything was opened, and revokes its tokens. If why
// says that permission to write the tokens was missing, there are no tokens to revoke.
func (o *Options) undo(class []auth.Issued, why error) error {
	if errors.Is(why, fs.ErrPermission) {
		return os.Remove(o.CSV)
	}
	return errors.Join(auth.RevokeAll(o.Data, class), os.Remove(o.CSV))
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

// make adds the tokens, and opens the accounts and places the shares that are still missing. It can be repeated
// after a failure. The error is a *begunError if some of the accounts may exist.
func (o *Options) make(ctx context.Context, class []auth.Issued, isNew bool) error {
	has, err := auth.AddAll(o.Data, class)
	if err != nil {
		return err
	}
	how := o.Client
	how.Token = class[0].Token
	x, err := dialKnown(ctx, o.Addr, how)
	if errors.As(err, new(*api.Unauthorized)) {
		err = fmt.Errorf("%w; is %s the data directory of this exchange, and the token of %s not revoked?", err, o.Data,
			class[0].Note)
	}
	if err != nil {
		return err
	}
	defer x.Close()
	if isNew {
		if err := requireNone(ctx, x, o.accounts()); err != nil {
			return err
		}
	}
	if err := o.open(ctx, x); err != nil {
		if strings.Contains(err.Error(), "has used ref "+ref) {
			return &begunError{fmt.Errorf("%w\n%s belongs to a class that was opened with other cash or shares: give the same "+
				"ones, or another --csv and --first, or reset the exchange with outcry-lab class reset", err, o.CSV)}
		}
		return &begunError{fmt.Errorf("%w\nthe class is not complete: run the same command again to continue", err)}
	}
	o.say(has == len(class))
	return nil
}

// say prints what the class has now: its cash, shares and tokens. If all is false, some tokens were revoked.
func (o *Options) say(all bool) {
	with := []string{o.Cash.String() + " dollars"}
	for _, h := range o.Shares {
		with = append(with, h.Shares.String()+" "+h.Symbol)
	}
	fmt.Fprintf(o.Out, "%s, %d to %d, each with %s\n", phrase.Number(o.Students, "account"), o.First,
		o.First+o.Students-1, phrase.List(with, "and"))
	fmt.Fprintf(o.Out, "tokens are in %s, which only you can read; the first is yours, of scope admin\n", o.CSV)
	if !all {
		fmt.Fprintf(o.Out, "some of them were revoked, and stay revoked; outcry token list shows the valid ones\n")
	}
}

// demandsTokens returns nil if an exchange requires tokens. The error says that it requires none, or that the
// exchange does not answer.
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
	return errors.New("this exchange accepts orders for every account without a token: start it with --auth")
}

// dialKnown connects with a token that was just written. The error is a *client.Unauthorized if the exchange
// does not know the token within knownTime.
func dialKnown(ctx context.Context, addr string, how api.Options) (*api.Client, error) {
	for end := time.Now().Add(knownTime); ; {
		x, err := api.Dial(ctx, addr, how)
		if !errors.As(err, new(*api.Unauthorized)) || time.Now().After(end) {
			return x, err
		}
		select {
		case <-time.After(knownPoll):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// requireNone returns nil if the exchange has none of the accounts. The error names one that exists.
func requireNone(ctx context.Context, x *api.Client, accounts []string) error {
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
		return fmt.Errorf("%s: account %s already exists, and %d of the others exist too; nothing was changed: choose "+
			"others with --first, or reset the exchange with outcry-lab class reset", x.Stats().Addr, there[0], len(there)-1)
	}
	return nil
}

// open opens the accounts and deposits the shares. Commands with a ref that was already used change nothing.
func (o *Options) open(ctx context.Context, x *api.Client) error {
	var commands []api.Command
	for _, id := range o.accounts() {
		commands = append(commands, api.OpenAccount(id, o.Cash).WithRef(ref))
		for _, h := range o.Shares {
			commands = append(commands, api.Place(h.Symbol, id, h.Shares).WithRef(ref+"-"+h.Symbol))
		}
	}
	for some := range slices.Chunk(commands, atOnce) {
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
