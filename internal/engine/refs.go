package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"outcry/internal/exchange"
)

// An account can use a ref only once, ever. The use of a ref is stored in one of two places at any time:
//
//   - in memory (exchange.Refs), in generations: refs of records that the database does
//     not have yet, and the newest of those that it has;
//   - in the database. Once a generation is completely there, its refs enter a filter that
//     excludes refs that were certainly never used (refFilter), and the generation before it is dropped from memory.
//
// The session asks the filter before it hands its commands over, and queries the database only for refs that the
// filter does not exclude (lookUp). The owner that executes a command looks in memory, and then in what the session
// has found (claimRef). Refs that entered memory after the session looked must still be there. The owner checks that
// by the number of the first generation in memory, and otherwise rejects the command as RefUnavailable.

// refsAskedMax is how many refs one query to the history may ask for.
const refsAskedMax = 1000

// recalled is the use of a ref according to memory or the database when the session looked.
type recalled struct {
	use         exchange.RefUse
	used        bool
	unavailable bool // neither memory nor the database answered
}

// lookup has what a session has found in the database about the refs of its commands. The zero value is for commands
// without refs.
type lookup struct {
	since    uint64 // lookedUp may lack refs of this generation and of later ones
	lookedUp map[exchange.RefKey]recalled
}

// hasRefs reports whether any command has a ref.
func hasRefs(commands []Request) bool {
	for i := range commands {
		if commands[i].Ref != "" || newRef(&commands[i].Command) != "" {
			return true
		}
	}
	return false
}

// eachRef calls f for each ref of the commands, with the command's index, until f returns false. An amend may
// have two refs.
func eachRef(commands []Request, f func(i int, key exchange.RefKey) bool) {
	for i := range commands {
		c := &commands[i].Command
		if c.Ref != "" && !f(i, exchange.RefKey{Account: c.Account, Ref: c.Ref}) {
			return
		}
		if ref := newRef(c); ref != c.Ref && ref != "" && !f(i, exchange.RefKey{Account: c.Account, Ref: ref}) {
			return
		}
	}
}

// lookUp looks up the refs that the owners of the commands cannot find: those that are only in the
// database. Refs that the filter excludes need no lookup.
func (e *Engine) lookUp(ctx context.Context, commands []Request) (l lookup) {
	if e.options.History == nil {
		return l
	}
	l.since = e.refs.filtered.Load() // must be read before the filter is asked
	var ask []exchange.RefKey
	eachRef(commands, func(_ int, key exchange.RefKey) bool {
		if e.refs.complete.Load() && !e.refs.filter.mayHave(key) {
			return true
		}
		if _, asked := l.lookedUp[key]; asked {
			return true
		}
		if l.lookedUp == nil {
			l.lookedUp = make(map[exchange.RefKey]recalled)
		}
		known, use, used := e.recallFromMemory(key)
		if l.lookedUp[key] = (recalled{use: use, used: used, unavailable: !known}); !known {
			ask = append(ask, key)
		}
		return true
	})
	for keys := range slices.Chunk(ask, refsAskedMax) {
		if !e.askHistory(ctx, keys, l.lookedUp) {
			break // do not ask for the other refs: each attempt may take long and would fail too
		}
	}
	return l
}

// Ready returns how many commands at the start of commands Execute can execute without asking the history: those
// before the first command with a ref that only the history may know.
func (e *Engine) Ready(commands []Request) (n int) {
	n = len(commands)
	if e.options.History == nil {
		return n
	}
	eachRef(commands, func(i int, key exchange.RefKey) bool {
		if e.refs.complete.Load() && !e.refs.filter.mayHave(key) {
			return true
		}
		known, _, _ := e.recallFromMemory(key)
		if !known {
			n = i
		}
		return known
	})
	return n
}

// recallFromMemory returns what a ref was used for. known is false if memory does not have the ref, so that only
// the history can answer. An account that does not exist has used no refs.
func (e *Engine) recallFromMemory(key exchange.RefKey) (known bool, use exchange.RefUse, used bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.ledger.Account(key.Account)
	if a == nil {
		return true, use, false
	}
	use, used = e.refs.table.Find(a, key.Ref)
	return used, use, used
}

// askHistory asks the history for refs and adds its answers to found. If the history does not answer,
// found is unchanged and the result is false.
func (e *Engine) askHistory(ctx context.Context, keys []exchange.RefKey, found map[exchange.RefKey]recalled) bool {
	e.counters.refsAsked.Add(int64(len(keys)))
	uses, err := e.options.History.Refs(ctx, keys)
	if err != nil {
		return false
	}
	for _, key := range keys {
		use, used := uses[key]
		found[key] = recalled{use: use, used: used}
	}
	return true
}

// executeOnce executes a command with a new ref, unless the same command was executed with that ref before:
// then it repeats the first answer. A command that is rejected does not use up its ref.
func (e *Engine) executeOnce(owner doer, c *Request, r *exchange.Result, l *lookup, now int64) error {
	var use exchange.RefUse
	if c.Kind == exchange.AmendOrder {
		var ok bool
		if use, ok = owner.amendUse(&c.Command, r); !ok {
			return nil
		}
	} else {
		use = c.Use()
	}
	ref := newRef(&c.Command)
	account, mayDo, err := e.claimRef(&c.Command, ref, use, r, l)
	if !mayDo {
		if err == nil && r.Reason == exchange.OK && c.Report {
			err = owner.reportAgain(r)
		}
		return err
	}
	if c.Repeat {
		c.exceedsRate(r)
	} else if err = owner.do(c, r, now); err != nil && !errors.Is(err, errAgain) {
		return err // final: the claim stays, and no result may be sent
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case account == nil: // the registrar has added the ref together with the account
	case err == nil && r.Reason == exchange.OK:
		use.Order = r.Order
		if a := use.Amend; a != nil {
			a.Named, a.Amended = r.Order, *r.Amended
			use.Order = cmp.Or(a.By, a.Named)
		}
		e.refs.table.Add(account, ref, use)
	default:
		e.refs.table.Withdraw(account, ref)
	}
	return err
}

// claimRef claims the ref of a command, so that the command may be executed. If mayDo is false,
// the result is the first answer again, or the reason of the rejection. account is nil if the command
// is to open it: a new account has used no refs, and only the registrar opens accounts. The error is
// errAgain if another owner is executing a command with the ref: until that has ended, it is
// unknown whether the ref will be used.
func (e *Engine) claimRef(
	c *exchange.Command, ref exchange.Ref, as exchange.RefUse, r *exchange.Result, l *lookup,
) (account *exchange.Account, mayDo bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if account = e.ledger.Account(c.Account); account == nil {
		if c.Kind == exchange.OpenAccount {
			return nil, true, nil
		}
		r.Reason = exchange.UnknownAccount
		return nil, false, nil
	}
	use, used, sure := e.refs.findUse(account, ref, l)
	switch {
	case used && use.Same(as):
		if r.Order = use.Order; use.Amend != nil {
			r.Order, r.Amended = use.Amend.Named, &use.Amend.Amended
		}
		e.counters.refsRepeated.Add(1)
	case used:
		r.Reason = exchange.RefUsed
	case !sure:
		r.Reason = exchange.RefUnavailable
	case e.refs.table.Claim(account, ref):
		return account, true, nil
	default:
		return nil, false, errAgain
	}
	return nil, false, nil
}

// namedOrder returns the first order of the chain that a query, a cancel or an amend names by its ref, and its symbol.
// If there is no such order, the id is 0 and the reason says why. A ref names no order until the order has its place
// in the journal.
func (e *Engine) namedOrder(
	c *exchange.Command, l *lookup,
) (exchange.OrderID, exchange.Symbol, exchange.RejectReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.ledger.Account(c.Account)
	if a == nil {
		return 0, "", exchange.UnknownAccount
	}
	use, _, sure := e.refs.findUse(a, c.Ref, l)
	switch {
	case !sure:
		return 0, "", exchange.RefUnavailable
	case use.Order == 0:
		return 0, "", exchange.UnknownOrder
	}
	return use.First(), use.Symbol, exchange.OK
}

// findUse returns what a ref was used for. sure is false if that cannot be determined now. It looks in memory for
// refs that were not in the filter when the session looked, and in l for all others. Callers hold the table's
// mutex.
func (x *refIndex) findUse(a *exchange.Account, ref exchange.Ref, l *lookup) (use exchange.RefUse, used, sure bool) {
	if use, used = x.table.FindSince(a, ref, l.since); used {
		return use, true, true
	}
	r := l.lookedUp[exchange.RefKey{Account: a.ID, Ref: ref}]
	switch {
	case r.used:
		return r.use, true, true
	case r.unavailable, x.table.First() > l.since:
		return use, false, false
	}
	return use, false, true
}

// newRef returns the ref that a command uses up: the ref of the account, symbol or order that it creates, or an
// amend's new ref.
func newRef(c *exchange.Command) exchange.Ref {
	switch {
	case c.Kind.Makes():
		return c.Ref
	case c.Kind == exchange.AmendOrder && c.More != nil:
		return c.More.NewRef
	}
	return ""
}
