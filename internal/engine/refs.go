package engine

import (
	"cmp"
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
		if commands[i].Ref != "" || newRef(&commands[i].Command) != "" {
			return true
		}
	}
	return false
}

// eachRef calls f for each ref of the commands, with the command's place, until f returns false: an amend may
// have two.
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

// lookUp finds what the owners of the commands cannot: refs that are in the database
// alone. A ref that the filter excludes needs nothing.
func (e *Engine) lookUp(ctx context.Context, commands []Request) (l lookup) {
	if e.options.History == nil {
		return l
	}
	l.since = e.refs.filtered.Load() // before the filter is asked
	var ask []exchange.RefKey
	eachRef(commands, func(_ int, key exchange.RefKey) bool {
		if e.refs.complete.Load() && !e.refs.filter.mayHave(key) {
			return true
		}
		if _, asked := l.perhaps[key]; asked {
			return true
		}
		if l.perhaps == nil {
			l.perhaps = make(map[exchange.RefKey]recalled)
		}
		known, use, used := e.recallFromMemory(key)
		if l.perhaps[key] = (recalled{use: use, used: used, unavailable: !known}); !known {
			ask = append(ask, key)
		}
		return true
	})
	for keys := range slices.Chunk(ask, refsAskedMax) {
		if !e.askHistory(ctx, keys, l.perhaps) {
			break // it would not answer for the others either, and each try takes its time
		}
	}
	return l
}

// Ready returns how many commands, from the first on, Execute does without asking the
// history: those before the first with a ref that perhaps only the history knows.
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

// namedOrder returns the first order of the chain that a query, a cancel or an amend names by its ref, 0 where
// there is none, and why, and its symbol. A ref whose order has no place in the journal yet has none.
func (e *Engine) namedOrder(
	c *exchange.Command, l *lookup,
) (exchange.OrderID, exchange.Symbol, exchange.RejectReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.ledger.Account(c.Account)
	if a == nil {
		return 0, "", exchange.UnknownAccount
	}
	use, _, sure := e.refs.find(a, c.Ref, l)
	switch {
	case !sure:
		return 0, "", exchange.RefUnavailable
	case use.Order == 0:
		return 0, "", exchange.UnknownOrder
	}
	return use.First(), use.Symbol, exchange.OK
}

// once does a command that makes something and has a ref, or an amend with one of its own, unless that was done
// before: then it is answered as it was answered first. A refusal does not use the ref up.
func (e *Engine) once(owner doer, c *Request, r *exchange.Result, l *lookup, now int64) error {
	var use exchange.RefUse
	if c.Kind == exchange.AmendOrder {
		var ok bool
		if use, ok = owner.(*shard).amendUse(&c.Command, r); !ok {
			return nil
		}
	} else {
		use = c.Use()
	}
	ref := newRef(&c.Command)
	account, mayDo, err := e.claimRef(&c.Command, ref, use, r, l)
	if !mayDo {
		if err == nil && r.Reason == exchange.OK && c.Report {
			err = e.reportAgain(owner, c, r)
		}
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

// claimRef keeps the ref of a command for it, so that it may be done. Otherwise the
// result says what came of it, or why it is refused. account is nil where the command
// is to open it: it has used no refs, and one goroutine opens all accounts. The error is
// errAgain: another owner is about to use the ref, and neither that it will nor that it
// will not may be told before it has.
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
	use, used, sure := e.refs.find(account, ref, l)
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

// reportAgain says in the result of what was done before what was reported first: a function of the record
// of its order, which is finished first. If memory does not know that any more, the history does (Recall). An error
// is that of finish.
func (e *Engine) reportAgain(owner doer, c *Request, r *exchange.Result) (err error) {
	id := r.Order
	if a := r.Amended; a != nil {
		if id = a.By; id == 0 {
			r.Status.Open = a.Open
			return nil
		}
	}
	d, ok := owner.(*shard)
	if !ok {
		return nil // an account was opened
	}
	if d.book.Unfinished() == id {
		if r.Reason, err = d.finish(); err != nil || r.Reason != exchange.OK {
			return err
		}
	}
	if o, found := d.book.Find(id); found {
		if s, known := o.AtFirst(); known {
			r.Status = report(s)
			return nil
		}
		r.Seen = e.log.Appended() // it is in memory: the history may not have all of it yet
	}
	if r.Reason = exchange.HistoryUnavailable; e.options.History != nil {
		r.Reason = exchange.InHistory
	}
	return nil
}
