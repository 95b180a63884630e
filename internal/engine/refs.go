package engine

import (
	"context"
	"errors"
	"slices"

	"outcry/internal/exchange"
)

// A ref is used once by its account, for ever. What it was used for is in one of two
// places at any time:
//
//   - in memory (exchange.Refs), in generations: those of records that the database does
//     not have yet, and the newest of those that it has;
//   - in the database. A generation that is wholly there enters a filter that knows what
//     was certainly never used (refFilter), and is dropped from memory one later.
//
// So the session asks the filter before it hands its commands over, and asks the database
// only for refs that the filter knows perhaps (lookUp). The owner that does a command
// looks into memory, then into what the session has found (claimRef). Whatever entered
// memory after the session looked is still there: the owner sees that by the number of
// the first generation in memory, and otherwise refuses.

// refsAskedMax is how many refs the history is asked for at once.
const refsAskedMax = 1000

// recalled is what memory or the database said of a ref when the session looked.
type recalled struct {
	use         exchange.RefUse
	used        bool
	unavailable bool // nobody said anything
}

// lookup is what a session has found of the refs of its commands. The zero value is
// that of commands without refs.
type lookup struct {
	since   uint64 // refs of this generation and of later ones may be missing in perhaps
	perhaps map[exchange.RefKey]recalled
}

// hasRefs reports whether any command has a ref.
func hasRefs(commands []Request) bool {
	for i := range commands {
		if commands[i].Ref != "" {
			return true
		}
	}
	return false
}

// lookUp finds what the owners of the commands cannot: refs that are in the database
// alone. A ref that the filter excludes needs nothing.
func (e *Engine) lookUp(ctx context.Context, commands []Request) (l lookup) {
	if e.options.History == nil {
		return l
	}
	l.since = e.refs.filtered.Load() // before the filter is asked
	var ask []exchange.RefKey
	for i := range commands {
		key := exchange.RefKey{Account: commands[i].Account, Ref: commands[i].Ref}
		if key.Ref == "" || e.refs.complete.Load() && !e.refs.filter.mayHave(key) {
			continue
		}
		if _, asked := l.perhaps[key]; asked {
			continue
		}
		if l.perhaps == nil {
			l.perhaps = make(map[exchange.RefKey]recalled)
		}
		known, use, used := e.recallFromMemory(key)
		if l.perhaps[key] = (recalled{use: use, used: used, unavailable: !known}); !known {
			ask = append(ask, key)
		}
	}
	for keys := range slices.Chunk(ask, refsAskedMax) {
		if !e.askHistory(ctx, keys, l.perhaps) {
			break // it would not answer for the others either, and each try takes its time
		}
	}
	return l
}

// Ready returns how many commands, from the first on, Execute does without asking the
// history: those before the first with a ref that perhaps only the history knows.
func (e *Engine) Ready(commands []Request) int {
	if e.options.History == nil {
		return len(commands)
	}
	for i := range commands {
		key := exchange.RefKey{Account: commands[i].Account, Ref: commands[i].Ref}
		if key.Ref == "" || e.refs.complete.Load() && !e.refs.filter.mayHave(key) {
			continue
		}
		if known, _, _ := e.recallFromMemory(key); !known {
			return i
		}
	}
	return len(commands)
}

// recallFromMemory returns what a ref was used for, as far as memory knows: an account
// that does not exist has used none.
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

// askHistory asks for refs, and leaves what it says in found. Where it does not answer
// they stay unavailable, and the result is false.
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

// find returns what a ref was used for. Where nobody can tell now, sure is false. What
// was in the filter when the session looked, the session has looked for. It is called
// under mu.
func (x *refIndex) find(a *exchange.Account, ref exchange.Ref, l *lookup) (use exchange.RefUse, used, sure bool) {
	if use, used = x.table.FindSince(a, ref, l.since); used {
		return use, true, true
	}
	r := l.perhaps[exchange.RefKey{Account: a.ID, Ref: ref}]
	switch {
	case r.used:
		return r.use, true, true
	case r.unavailable, x.table.First() > l.since:
		return use, false, false
	}
	return use, false, true
}

// namedOrder returns the order that a query or a cancel names by its ref, 0 where there
// is none, and why. A ref whose order has no place in the journal yet has none.
func (e *Engine) namedOrder(c *exchange.Command, l *lookup) (exchange.OrderID, exchange.RejectReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.ledger.Account(c.Account)
	if a == nil {
		return 0, exchange.UnknownAccount
	}
	use, _, sure := e.refs.find(a, c.Ref, l)
	switch {
	case !sure:
		return 0, exchange.RefUnavailable
	case use.Order == 0:
		return 0, exchange.UnknownOrder
	}
	return use.Order, exchange.OK
}

// once does a command that makes something and has a ref, unless that was done before:
// then it is answered as it was answered first. A refusal does not use the ref up.
func (e *Engine) once(owner doer, c *Request, r *exchange.Result, l *lookup, now int64) error {
	account, mayDo, err := e.claimRef(&c.Command, r, l)
	if !mayDo {
		return err
	}
	if c.Repeat {
		r.Reason = exchange.RateExceeded
	} else if err = owner.do(c, r, now); err != nil && !errors.Is(err, errAgain) {
		return err // final: the claim stays, and nobody may be told anything
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case account == nil: // the registrar has noted the ref together with the account
	case err == nil && r.Reason == exchange.OK:
		use := c.Use()
		use.Order = r.Order
		e.refs.table.Add(account, c.Ref, use)
	default:
		e.refs.table.Withdraw(account, c.Ref)
	}
	return err
}

// claimRef keeps the ref of a command for it, so that it may be done. Otherwise the
// result says what came of it, or why it is refused. account is nil where the command
// is to open it: it has used no refs, and one goroutine opens all accounts. The error is
// errAgain: another owner is about to use the ref, and neither that it will nor that it
// will not may be told before it has.
func (e *Engine) claimRef(
	c *exchange.Command, r *exchange.Result, l *lookup,
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
	use, used, sure := e.refs.find(account, c.Ref, l)
	switch {
	case used && use.Same(c.Use()):
		r.Order = use.Order
		e.counters.refsRepeated.Add(1)
	case used:
		r.Reason = exchange.RefUsed
	case !sure:
		r.Reason = exchange.RefUnavailable
	case e.refs.table.Claim(account, c.Ref):
		return account, true, nil
	default:
		return nil, false, errAgain
	}
	return nil, false, nil
}
