package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// The journal has followers: the view of accounts and the market data feed. Answers to all clients wait for them. So
// only the clients whose commands cause a follower's pending work are slowed down: the records that a follower may see
// but has not processed yet are counted for each connection, and for each token or account.
//
// A connection that is above its share is not read, and a request waits, before it holds anything. So nothing else
// waits for them. payers.go counts the work.

// Bounds of the work that followers have still to do for one client. Work is counted in records, fills and cancels; a
// follower does about a million a second.
const (
	// lagShare is how much work a connection may leave to the followers before it is not read.
	lagShare = 1 << 14

	// lagTogether is the same for all connections and requests of one token or, if tokens are not required, of one
	// account.
	lagTogether = 1 << 16

	// lagMax is the work above which orders are rejected. One frame may cause more work than lagShare.
	lagMax = 1 << 20

	// owedMax is the number of parts in which a charge is counted. More precise parts would be of no use.
	owedMax = 16

	// chargeStep is the work after which a connection adds its work to that of its token or accounts.
	chargeStep = 64

	// hungAfter is how long a follower may make no progress, although it has records to process, before clients stop
	// waiting for it. A wait gives a follower time to catch up, which does not help a hung one. The work of a chunk, or
	// of the longest record, is far below a second.
	hungAfter = 30 * time.Second

	// payersMax is the maximum number of tokens or accounts with a charge of their own. All further ones share one.
	payersMax = 1 << 16
)

// charge charges the caller for what commands have made the followers do.
func (c *Caller) charge(commands []engine.Request, results []exchange.Result) {
	if len(c.server.payers.followers) == 0 {
		return
	}
	for i := range results {
		if work := int64(results[i].Work); work != 0 {
			c.owe(commands[i].Account, results[i].Seq, work)
		}
	}
	if !c.connected {
		c.pay()
	}
}

// chargeDone charges the caller for the commands that were executed before ctx ended Execute; err is Execute's error.
// After any other error the exchange has failed or is stopping, and may still write to results.
func (c *Caller) chargeDone(err error, commands []engine.Request, results []exchange.Result) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		c.charge(commands, results)
	}
}

// owe adds the work of a command to the charge of the connection, and to what is not yet in the charges of payers.
func (c *Caller) owe(account exchange.AccountID, seq uint64, work int64) {
	if c.connected {
		c.own.add(seq, work, lagShare)
	}
	if c.debts == nil {
		c.debts = c.oneDebt[:0]
	}
	if n := len(c.debts); n == 0 || c.grant == nil && c.debts[n-1].account != account {
		c.debts = append(c.debts, debt{account: account})
	}
	last := &c.debts[len(c.debts)-1]
	last.seq, last.work = max(last.seq, seq), last.work+work
	if c.unpaid += work; c.unpaid >= chargeStep {
		c.pay()
	}
}

// pay adds what the caller owes to the charges of the payers.
func (c *Caller) pay() {
	if len(c.debts) == 0 {
		return
	}
	for i := range c.debts {
		c.debts[i].key = c.keyOf(c.debts[i].account)
		c.payer = c.debts[i].key
	}
	c.server.payers.add(c.debts)
	clear(c.debts)
	c.debts, c.unpaid = c.debts[:0], 0
}

// keyOf returns the key of the payer of a command.
func (c *Caller) keyOf(account exchange.AccountID) uint64 {
	if c.grant != nil {
		return c.server.payers.key(c.grant.ID)
	}
	return c.server.payers.key(string(account))
}

// pressed returns the keys of the payers of commands that may be above lagTogether. Without commands, it is the key of
// the payer that was charged last.
func (c *Caller) pressed(commands []engine.Request) (keys []uint64) {
	p := c.server.payers
	switch {
	case p.over.Load() == 0:
	case c.grant != nil:
		keys = p.appendPressed(keys, c.keyOf(""))
	case len(commands) == 0:
		keys = p.appendPressed(keys, c.payer)
	default:
		for i := range commands {
			if i == 0 || commands[i].Account != commands[i-1].Account {
				keys = p.appendPressed(keys, c.keyOf(commands[i].Account))
			}
		}
	}
	return keys
}

// lag returns the work for which the caller must wait: its own if it is above a share, otherwise none. keys are those
// of the payers whose shares count, from pressed.
func (c *Caller) lag(keys ...uint64) (l lag) {
	p := c.server.payers
	if c.own.sum > lagShare {
		if l = c.own.lag(p.followers); l.work <= lagShare {
			l = lag{}
		} else {
			l = l.within(&c.own, lagShare)
		}
	}
	for _, key := range keys {
		l = l.max(p.lag(key))
	}
	return l
}

// lagOf is lag for the command of one account.
func (c *Caller) lagOf(account exchange.AccountID) lag {
	if c.server.payers.over.Load() == 0 {
		return c.lag()
	}
	return c.lag(c.keyOf(account))
}

// waitForFollowers waits while the caller is above its share, but not above most. keys are as for lag. It calls check
// every slowCheckEvery, and returns its error. It returns early, with nil, when ctx or the caller's token ends or the
// server shuts down, and does not wait for a follower that hangs. waited reports whether it has waited. Its caller must
// hold nothing that others may need.
func (c *Caller) waitForFollowers(
	ctx context.Context, keys []uint64, most int64, check func() error,
) (waited bool, err error) {
	l := c.lag(keys...)
	if l.slowest == nil || l.work > most {
		return false, nil
	}
	c.server.options.Metrics.hit(limitFollowers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.server.accepting, cancel)()
	if c.grant != nil {
		defer c.grant.AfterEnd(cancel)()
	}
	c.server.findHung()
	for ctx.Err() == nil && l.slowest != nil && l.work <= most {
		round, end := context.WithTimeout(ctx, slowCheckEvery)
		_ = l.slowest.Await(round, l.until)
		end()
		if err := check(); err != nil {
			return true, err
		}
		c.server.findHung()
		l = c.lag(keys...)
	}
	return true, nil
}

// findHung finds out which followers hang, and reports whether one is found that was not known to.
func (s *Server) findHung() (found bool) {
	now := time.Now()
	for _, f := range s.payers.followers {
		if f.look(now) {
			found = true
			s.options.Log.Warn("a follower of the journal hangs; clients no longer wait for it",
				slog.Uint64("record", f.Position()), slog.Duration("after", hungAfter))
		}
	}
	return found
}

// mayExecute waits, as waitForFollowers, before commands of a call or request are executed. The error is that of
// waitForTurn.
func (c *Caller) mayExecute(ctx context.Context, commands []engine.Request) error {
	if len(commands) == 0 {
		return nil
	}
	return c.waitForTurn(ctx, c.pressed(commands))
}

// waitForTurn waits like waitForFollowers, for a call or request. Without a connection, at most answersMax callers
// wait, since each holds its commands. The error means that nothing may be executed any more: it is ErrUnauthorized if
// the caller's token has ended, ErrBusy if too many wait, ErrExpired if the wait was too long for the client,
// ErrAborted, or ErrUndone if ctx has ended.
func (c *Caller) waitForTurn(ctx context.Context, keys []uint64) error {
	if c.lag(keys...).slowest == nil {
		return nil
	}
	s := c.server
	if !c.connected {
		defer s.slowed.Add(-1)
		if s.slowed.Add(1) > answersMax {
			return ErrBusy
		}
	}
	if !c.expires.IsZero() {
		timed, cancel := context.WithDeadlineCause(ctx, c.expires, ErrExpired)
		defer cancel()
		ctx = timed
	}
	waited, _ := c.waitForFollowers(ctx, keys, math.MaxInt64, unchecked)
	switch {
	case !waited:
	case s.aborted.Load():
		return ErrAborted
	case errors.Is(context.Cause(ctx), ErrExpired):
		return ErrExpired
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrUndone, ctx.Err())
	case !s.accepts(c.grant):
		return ErrUnauthorized
	}
	return nil
}

// lags returns a refusal of an order if its sender is above lagMax, else the zero value. An order with a ref is passed
// on even then, as in pace, and so is an amend, of which only the exchange knows whether it merely reduces its order.
func (j *judge) lags(c *engine.Request) (refusal exchange.Refusal) {
	l := j.caller.lagOf(c.Account)
	if l.work > lagMax && j.caller.server.findHung() {
		l = j.caller.lagOf(c.Account)
	}
	if l.work <= lagMax {
		return refusal
	}
	j.caller.server.options.Metrics.hit(limitFollowers)
	switch c.Lags = true; {
	case c.Kind == exchange.AmendOrder:
		return refusal
	case c.Ref != "":
		c.Repeat = true
		return refusal
	}
	return exchange.Refusal{Reason: exchange.RateExceeded, Text: fmt.Sprintf("account views and market data do not have "+
		"%d records, fills and cancels of this client yet, and the limit is %d; try again later; cancel and query still work",
		l.work, lagMax)}
}
