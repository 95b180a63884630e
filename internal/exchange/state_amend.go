package exchange

import "fmt"

// replace applies an OrderReplaced event.
func (s *State) replace(in *Instrument, book *Book, e *Event) error {
	old, err := s.orderToAmend(book, e, e.Amend.Old.Order)
	if err != nil {
		return err
	}
	o := old.Replacement(old.ChainExecuted()+e.Shares, e.Limit)
	o.ID, o.OnDisconnect = e.Order, e.OnDisconnect
	if want := old.Amendment(e.Kind, e.Amend.Amount, e.Amend.Limit, 0); *want != *e.Amend ||
		e.OnDisconnect != old.OnDisconnect {
		return fmt.Errorf("exchange: replay: order %d of %s was replaced as %+v, now %+v", old.ID, e.Symbol, e.Amend, want)
	}
	if err := s.mayEnter(book, e, &o); err != nil {
		return err
	}
	if r := s.Ledger.ReserveInstead(in, &old, &o); r != OK {
		return fmt.Errorf("exchange: replay: order %d was accepted in place of order %d, now %s", e.Order, old.ID, r)
	}
	s.fills = book.replace(&o, e.Time, s.fills[:0], s.Index.replayFills(e))
	if err := s.compareRecord(e, book, &o, o.Shares); err != nil {
		return err
	}
	s.Ledger.SettleInstead(in, &old, &o, s.fills)
	s.Ledger.ReleaseOwn(in, o.Account, book.Own())
	s.OrderID = max(s.OrderID, e.Order)
	return nil
}

// reduce applies an OrderReduced event.
func (s *State) reduce(in *Instrument, book *Book, e *Event) error {
	o, err := s.orderToAmend(book, e, e.Order)
	if err != nil {
		return err
	}
	want := o.Amendment(e.Kind, e.Amend.Amount, e.Amend.Limit, e.Shares)
	if *want != *e.Amend || o.Terms != e.Terms || want.Open <= 0 {
		return fmt.Errorf("exchange: replay: order %d of %s was reduced as %+v, %s, now %+v, %s",
			e.Order, e.Symbol, e.Amend, e.words(), want, o.words())
	}
	if e.Shares > 0 {
		o, _ = book.Reduce(e.Order, e.Account, e.Shares, e.Time)
		s.Ledger.ReleaseReduced(in, &o, e.Shares)
	}
	return nil
}

// orderToAmend returns the order that e amends. It must be open.
func (s *State) orderToAmend(book *Book, e *Event, id OrderID) (Order, error) {
	r := book.MayCancel(id, e.Account)
	o, _ := book.Find(id)
	if r != OK {
		return o, fmt.Errorf("exchange: replay: order %d of %s was amended, now %s", id, e.Symbol, r)
	}
	return o, nil
}

// applyRules applies an AccountRuled or a SwitchSet event, or the effect of an OrdersCanceled event on a switch.
func (s *State) applyRules(e *Event) error {
	a := s.Ledger.Account(e.Account)
	if a == nil {
		return fmt.Errorf("exchange: replay: %s of account %s, which was never opened", e.Kind, e.Account)
	}
	if e.Kind == AccountRuled {
		rules := *e.AccountRules
		s.Ledger.SetRules(a, &rules)
	} else {
		s.Ledger.SetSwitch(a, e.Due) // Due is 0 if the switch has fired
	}
	return nil
}
