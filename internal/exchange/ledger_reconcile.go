package exchange

// Imbalance is what a ledger has too much, or too little where it is negative.
// The zero Imbalance is the only one that a ledger without a bug has.
type Imbalance struct {
	Cash    Cash   // what accounts have beyond what they were opened with
	Symbols int    // how many symbols' shares do not add up to what was deposited
	Symbol  Symbol // one of them
}

// count is a sum of what accounts have that is taken in pieces, while trading
// goes on between them. What has been counted and then changes is noted, so that
// in the end the sum is of one moment: the last. Each count is a new round; an
// account or position knows the round that counted it, or that found it new.
type count[T interface{ Add(T) T }] struct {
	round uint32
	sum   T
}

// begin begins a new round, of which nothing is counted yet.
func (c *count[T]) begin() {
	var zero T
	c.round, c.sum = c.round+1, zero
}

// note adds to the sum what something has gained that was counted in a round,
// unless it is yet to be counted in this one.
func (c *count[T]) note(round uint32, gained T) {
	if round == c.round {
		c.sum = c.sum.Add(gained)
	}
}

// reconcileStep is how many accounts or positions are counted between two pauses.
const reconcileStep = 256

// Reconcile counts all cash and all shares anew and compares them with what
// accounts were opened with and what was deposited. It calls pause after every few
// steps: other methods of l may be called until pause returns, but not Reconcile.
func (l *Ledger) Reconcile(pause func()) Imbalance {
	steps := 0
	step := func() {
		if steps++; steps%reconcileStep == 0 {
			pause()
		}
	}
	found := Imbalance{Cash: l.reconcileCash(step)}
	for sym, in := range l.instruments {
		step()
		if !in.reconcile(step) {
			found.Symbols, found.Symbol = found.Symbols+1, sym
		}
	}
	return found
}

func (l *Ledger) reconcileCash(step func()) Cash {
	l.count.begin()
	for a := range l.accounts.all() {
		if a.counted == l.count.round {
			continue // it is new, and what it has is noted
		}
		a.counted = l.count.round
		l.count.note(a.counted, a.balance.Add(a.held))
		if l.count.sum.Cmp(CashTotalMax) > 0 {
			break // before a damaged sum can overflow
		}
		step()
	}
	return l.count.sum.Sub(l.opened)
}

func (in *Instrument) reconcile(step func()) bool {
	in.count.begin()
	for _, h := range in.positions {
		if h.counted == in.count.round {
			continue
		}
		h.counted = in.count.round
		in.count.note(h.counted, h.shares.Add(h.held))
		if in.count.sum.Cmp(PositionTotalMax) > 0 {
			break
		}
		step()
	}
	return in.count.sum == in.deposited
}
