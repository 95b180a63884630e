package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
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

	// keysMax is the maximum number of tokens or accounts that one frame or call waits for at a time.
	keysMax = 16

	// slowedMax is the maximum number of callers without a connection that wait for one token or account, of answersMax.
	slowedMax = answersMax / 4
)

// charge charges the caller for what commands have made the followers do.
func (c *Caller) charge(commands []engine.Request, results []exchange.Result) {
	if len(c.server.payers.followers) == 0 {
		return
	}
	for i := range results {
		if work := int64(results[i].Work); work != 0 {
			c.owe(&commands[i], results[i].Seq, work)
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
func (c *Caller) owe(command *engine.Request, seq uint64, work int64) {
	if c.connected {
		c.own.add(seq, work, lagShare)
	}
	payer, ok := c.payerOf(command)
	if !ok {
		return
	}
	if c.debts == nil {
		c.debts = c.oneDebt[:0]
	}
	if n := len(c.debts); n == 0 || c.grant == nil && c.debts[n-1].payer != payer {
		c.debts = append(c.debts, debt{payer: payer})
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
		c.debts[i].key = c.keyOf(c.debts[i].payer)
		c.payer = c.debts[i].key
	}
	c.server.payers.add(c.debts)
	clear(c.debts)
	c.debts, c.unpaid = c.debts[:0], 0
}

// payerOf returns who pays for a command if no token is required: its account, and for a create the sender, because
// else anyone could charge accounts of others. ok is false for a create over a connection, which alone pays for it.
// Another sender is known by its address.
func (c *Caller) payerOf(command *engine.Request) (payer exchange.AccountID, ok bool) {
	switch command.Kind {
	case exchange.OpenAccount, exchange.MakeSymbol, exchange.DepositShares:
		return exchange.AccountID(c.client), c.grant != nil || !c.connected
	case exchange.PlaceOrder, exchange.QueryOrder, exchange.CancelOrder, exchange.ShowOrder, exchange.AmendOrder,
		exchange.CancelAll, exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
	}
	return command.Account, true
}

// keyOf returns the key of a payer, from payerOf.
func (c *Caller) keyOf(payer exchange.AccountID) uint64 {
	if c.grant != nil {
		return c.server.payers.key(c.grant.ID)
	}
	return c.server.payers.key(string(payer))
}

// expect returns a command that has the payer of all commands of a frame, for pressed, as far as its first bytes, head,
// show it. named reports whether they do: otherwise the command is a create.
func (c *Caller) expect(codec Codec, head []byte) (commands []engine.Request, named bool) {
	account, named := codec.Account(head)
	one := engine.Request{Command: exchange.Command{Kind: exchange.OpenAccount}}
	if named {
		one.Command = exchange.Command{Kind: exchange.CancelAll, Account: account}
	}
	return []engine.Request{one}, named || c.grant != nil
}

// pressed returns the keys of the payers of commands that are above lagTogether, as far as is known: the first keysMax.
// Without commands, it is the key of the payer that was charged last.
func (c *Caller) pressed(commands []engine.Request) (keys []uint64) {
	p := c.server.payers
	switch {
	case p.over.Load() == 0:
	case c.grant != nil:
		keys = p.appendPressed(keys, c.keyOf(""))
	case len(commands) == 0:
		keys = p.appendPressed(keys, c.payer)
	default:
		last, known := exchange.AccountID(""), false
		for i := 0; i < len(commands) && len(keys) < keysMax; i++ {
			if payer, ok := c.payerOf(&commands[i]); ok && (!known || payer != last) {
				keys = p.appendPressed(keys, c.keyOf(payer))
				last, known = payer, true
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

// above reports whether the caller would have to wait before the commands are executed.
func (c *Caller) above(ctx context.Context, commands []engine.Request) bool {
	return c.lag(c.pressed(commands)...).slowest != nil && ctx.Err() == nil && !c.server.isDraining() && !c.tokenEnded()
}

// waitForFollowers waits while the caller, or a payer of the commands (pressed), is above its share, but not above
// most. It calls check every slowCheckEvery, and returns its error. It returns early, with nil, when ctx or the
// caller's token ends or the server shuts down, and does not wait for a follower that hangs. waited reports whether
// it has waited. Its caller must hold nothing that others may need.
func (c *Caller) waitForFollowers(
	ctx context.Context, commands []engine.Request, most int64, check func() error,
) (waited bool, err error) {
	keys := c.pressed(commands)
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
		if l = c.lag(keys...); l.slowest == nil && len(keys) == keysMax {
			keys = c.pressed(commands)
			l = c.lag(keys...)
		}
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
	return c.waitForTurn(ctx, commands)
}

// waitForTurn waits like waitForFollowers, for a call or request. Without a connection, at most answersMax callers
// wait, and slowedMax of one payer, since each holds its commands. The error means that nothing may be executed any
// more: it is ErrUnauthorized if the caller's token has ended, ErrBusy if too many wait, ErrExpired if the wait was too
// long for the client, ErrAborted, or ErrUndone if ctx has ended.
func (c *Caller) waitForTurn(ctx context.Context, commands []engine.Request) error {
	keys := c.pressed(commands)
	if c.lag(keys...).slowest == nil {
		return nil
	}
	s := c.server
	if !c.connected {
		if !s.slowed.enter(keys[0]) {
			return ErrBusy
		}
		defer s.slowed.leave(keys[0])
	}
	if !c.expires.IsZero() {
		timed, cancel := context.WithDeadlineCause(ctx, c.expires, ErrExpired)
		defer cancel()
		ctx = timed
	}
	waited, _ := c.waitForFollowers(ctx, commands, math.MaxInt64, unchecked)
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

// waiters counts callers without a connection that wait for followers. Its methods may be called from any goroutine.
type waiters struct {
	// mu guards the fields below.
	mu  sync.Mutex
	all int            // at most answersMax
	of  map[uint64]int // by the key of the first payer that a caller waits for; each at most slowedMax
}

// enter counts one more caller, and reports whether it may wait. If it may, it calls leave after the wait.
func (w *waiters) enter(key uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= answersMax || w.of[key] >= slowedMax {
		return false
	}
	w.all++
	w.of[key]++
	return true
}

// leave ends the wait of a caller.
func (w *waiters) leave(key uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.of[key]--; w.of[key] == 0 {
		delete(w.of, key)
	}
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
