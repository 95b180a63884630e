package exchange

// Imbalance is a ledger's surplus, or its deficit if negative. It is zero unless the ledger has a bug.
type Imbalance struct {
	Cash    Cash   // cash of all accounts beyond what they were opened with
	Symbols int    // number of symbols whose shares do not add up to the deposits
	Symbol  Symbol // one of these symbols
}

// count adds up what all accounts have, in pieces, while trading continues in between. A change of something that
// is already counted is added to the sum, so that the final sum is that of a single moment: the end of the count.
// Each count is a new round; an account or position records the round in which it was counted or created.
type count[T interface{ Add(T) T }] struct {
	round uint32
	sum   T
}

// begin starts a new round, in which nothing is counted yet.
func (c *count[T]) begin() {
	var zero T
	c.round, c.sum = c.round+1, zero
}

// addGain adds to the sum what an account or position gained, if it was counted in the current round. round is the
// last round in which it was counted.
func (c *count[T]) addGain(round uint32, gained T) {
	if round == c.round {
		c.sum = c.sum.Add(gained)
	}
}

// reconcileStep is the number of accounts or positions counted between two pauses.
const reconcileStep = 256

// Reconcile counts all cash and all shares and compares them with the opening balances and the deposits. It calls
// pause after every reconcileStep steps: during pause other methods of l may be called, except Reconcile.
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
			continue // created in this round: its cash is already in the sum
		}
		a.counted = l.count.round
		l.count.addGain(a.counted, a.balance.Add(a.held))
		if l.count.sum.Cmp(CashTotalMax) > 0 {
			break // stop before a damaged sum overflows
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
		in.count.addGain(h.counted, h.shares.Add(h.held))
		if in.count.sum.Cmp(PositionTotalMax) > 0 {
			break
		}
		step()
	}
	return in.count.sum == in.deposited
}
