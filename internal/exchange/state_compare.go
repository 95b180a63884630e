package exchange

import (
	"cmp"
	"fmt"
	"slices"
)

// SameOrders compares the last order id and the orders of a snapshot with those of s. It
// does not compare executions, because a replay has checked each of them. Order.Taken is
// compared if both sides know it. The error names the first order that differs, with
// both values. SameOrders sorts the snapshot's orders.
func (s *State) SameOrders(snap *Snapshot) error {
	var want []OrderState
	for sym, book := range s.Books {
		for o := range book.Orders() {
			if o.Open > 0 {
				want = append(want, o.state(sym))
			}
		}
	}
	err := difference(snap.Orders, want,
		func(o *OrderState) string { return fmt.Sprintf("order %d", o.ID) },
		(*OrderState).value,
		func(a, b *OrderState) int { return cmp.Compare(a.ID, b.ID) })
	for i := 0; err == nil && i < len(want); i++ {
		if got := snap.Orders[i].Taken; got != 0 && want[i].Taken != 0 && got != want[i].Taken {
			n, _ := got.Count()
			err = fmt.Errorf(
				"exchange: order %d had %d executions on arrival; it should have %d",
				want[i].ID,
				n,
				want[i].Taken-1,
			)
		}
	}
	if err == nil && snap.OrderID != s.OrderID {
		err = fmt.Errorf("exchange: the last order is %d; it should be %d", snap.OrderID, s.OrderID)
	}
	return err
}

// SameHoldings compares the accounts, symbols and positions of a snapshot with
// the ledger of s, exactly. The error names the first that differs, with both values.
// SameHoldings sorts the snapshot's lists.
func (s *State) SameHoldings(snap *Snapshot) error {
	var accounts []AccountState
	for a := range s.Ledger.accounts.all() {
		accounts = append(
			accounts,
			AccountState{ID: a.ID, Balance: a.balance, Held: a.held, Rules: a.Rules(), Due: a.Due()},
		)
	}
	var symbols []SymbolState
	var positions []PositionState
	for sym, in := range s.Ledger.instruments {
		book := s.Books[sym]
		symbols = append(symbols, SymbolState{Symbol: sym, Deposited: in.deposited, Halt: book.Halted(),
			Rules: book.Rules(), Last: book.Last()})
		for a, h := range in.positions {
			positions = append(positions, PositionState{sym, a.ID, h.shares, h.held})
		}
	}
	err := difference(snap.Accounts, accounts,
		func(a *AccountState) string { return fmt.Sprintf("account %s", a.ID) },
		(*AccountState).value,
		func(a, b *AccountState) int { return cmp.Compare(a.ID, b.ID) })
	if err == nil {
		err = difference(snap.Symbols, symbols,
			func(sym *SymbolState) string { return fmt.Sprintf("symbol %s", sym.Symbol) },
			(*SymbolState).value,
			func(a, b *SymbolState) int { return cmp.Compare(a.Symbol, b.Symbol) })
	}
	if err == nil {
		err = difference(snap.Positions, positions,
			func(p *PositionState) string { return fmt.Sprintf("position of account %s in %s", p.Account, p.Symbol) },
			func(p *PositionState) string { return fmt.Sprintf("%s free, %s held", p.Shares, p.Held) },
			func(a, b *PositionState) int {
				return cmp.Or(cmp.Compare(a.Symbol, b.Symbol), cmp.Compare(a.Account, b.Account))
			})
	}
	return err
}

// value formats an account of a snapshot.
func (a *AccountState) value() string {
	text := fmt.Sprintf("%s free, %s held", a.Balance, a.Held)
	if r := a.Rules; r != nil {
		text += fmt.Sprintf(
			", at most %s shares, %s dollars, %d open orders, stp %s",
			r.SharesMax,
			r.NotionalMax,
			r.OpenMax,
			r.STP,
		)
		if r.Block != nil {
			text += fmt.Sprintf(", blocked since %d: %q", r.Block.Since, r.Block.Reason)
		}
	}
	if a.Due != 0 {
		text += fmt.Sprintf(", switch at %d", a.Due)
	}
	return text
}

// value formats a symbol of a snapshot. Without a band the last trade has no effect, so it is left out.
func (s *SymbolState) value() string {
	text := fmt.Sprintf("%s placed", s.Deposited)
	if s.Halt != nil {
		text += fmt.Sprintf(", halted since %d: %q", s.Halt.Since, s.Halt.Reason)
	}
	if r := s.Rules; r != (SymbolRules{}) {
		text += fmt.Sprintf(", tick %s, lot %s, protect %d, band %d", r.Tick, r.Lot, r.Protect, r.Band)
		if r.Band != 0 {
			text += fmt.Sprintf(", last trade at %s", s.Last)
		}
	}
	return text
}

// difference sorts two lists and returns an error that names the first entry that
// differs. Entries are equal if value returns the same text for both.
func difference[T any](got, want []T, key, value func(*T) string, order func(a, b *T) int) error {
	for _, list := range [][]T{got, want} {
		slices.SortFunc(list, func(a, b T) int { return order(&a, &b) })
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i == len(got) || i < len(want) && order(&got[i], &want[i]) > 0:
			return fmt.Errorf("exchange: %s is missing: it should have %s", key(&want[i]), value(&want[i]))
		case i == len(want) || order(&got[i], &want[i]) < 0:
			return fmt.Errorf("exchange: %s should not exist: it has %s", key(&got[i]), value(&got[i]))
		case value(&got[i]) != value(&want[i]):
			return fmt.Errorf("exchange: %s has %s; it should have %s", key(&got[i]), value(&got[i]), value(&want[i]))
		}
	}
	return nil
}
