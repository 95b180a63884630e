package audit

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// match compares the orders in the tables with the orders that were sent. Each appears at most once, none was
// rejected, and every answered order appears with the content of its answer. An order without an answer and without
// a row is assumed never to have happened, and is forgotten; if it appears later, match returns an error.
func (h *knowledge) match(t *truth) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range t.amends {
		if err := h.matchAmend(&t.amends[i]); err != nil {
			return err
		}
	}
	t.amends = nil
	for id := range t.touched {
		if err := h.matchOrder(t.orders[id]); err != nil {
			return err
		}
	}
	if err := h.bulk.lost(); err != nil {
		return err
	}
	for n, s := range h.orders {
		switch s.fate {
		case answered:
			switch {
			case s.amends() && s.id == 0 && !s.done:
				return fmt.Errorf("an amend of order %d was answered with <amended>, but is lost: %+v", s.old, *s)
			case s.amends() && s.id == 0:
				delete(h.orders, n)
			case t.orders[s.id] == nil:
				return fmt.Errorf("order %d was answered with <opened>, but is lost: %+v", s.id, *s)
			}
		case sent:
			switch {
			case s.done && s.id == 0:
				delete(h.orders, n)
			case s.id == 0:
				h.counts.UnknownNever++
				delete(h.orders, n)
			}
		case refused, cutOff:
			delete(h.orders, n)
		}
	}
	return nil
}

func (h *knowledge) matchOrder(o *order) error {
	if h.bulk.accounts[o.account] {
		return h.bulk.match(o)
	}
	s := h.orders[o.serial()]
	switch {
	case s == nil || s.amends() != (o.replaces > 0):
		return fmt.Errorf("order %d (%s of %s for account %s) is in the tables, but was never sent, appears a second "+
			"time, or "+
			"was given up", o.id, decimal(o.amount), o.sym, o.account)
	case s.account != o.account || !s.amends() && s.sym != o.sym || abs(s.amount) != o.total() ||
		s.amount > 0 != o.buys() || s.limit != 0 && s.limit != o.limit || !s.amends() && s.inEffect() != o.instructions:
		return fmt.Errorf("order %d is in the tables as %+v, but was sent as %+v", o.id, *o, *s)
	case s.fate == refused:
		return fmt.Errorf("order %d exists, but was answered with a rejection", o.id)
	case s.fate == cutOff:
		return fmt.Errorf("order %d is in the tables, but its frame was never complete", o.id)
	case s.id != 0 && s.id != o.id:
		return fmt.Errorf("one order is in the tables twice, as %d and as %d", s.id, o.id)
	}
	if s.fate == sent && s.id == 0 {
		s.id = o.id
		h.ids[o.id] = o.serial()
		if !s.amends() { // matchAmend has counted amends
			h.counts.UnknownHappened++
		}
	}
	if s.kind == "market" && s.limit == 0 && o.limit != protection(o) {
		return fmt.Errorf("market order %d has the limit %s, but the best price was %s", o.id, decimal(o.limit),
			decimal(o.best))
	}
	n := len(s.answer.Executed)
	if n > len(o.executed) || !slices.Equal(s.answer.Executed, o.executed[:n]) {
		return fmt.Errorf("order %d was answered as having executed %+v, but has executed %+v", o.id, s.answer.Executed,
			o.executed)
	}
	if s.canceled && (s.answer.Canceled != decimal(o.canceled) || s.answer.CanceledAt != o.canceledAt ||
		n != len(o.executed)) {
		return fmt.Errorf("order %d was answered as canceled (%+v), but is %+v", o.id, s.answer, o.status())
	}
	return nil
}

// serial returns the serial number of an order in the tables. The serial number is part of the total, which equals
// the amount unless the order replaced another.
func (o *order) serial() int64 { return serial(o.total()) }

// protection returns the limit of a market order that was sent without one: a tenth beyond the other
// side's best price, rounded towards it.
func protection(o *order) int64 {
	if o.buys() {
		return o.best + o.best/10
	}
	return o.best - o.best/10
}

// matchAccounts compares accounts and deposits with the sent commands. opened has "ACCOUNT BALANCE", placed "ACCOUNT
// SYM SHARES".
func (h *knowledge) matchAccounts(t *truth, opened, placed []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, row := range opened {
		id, balance, _ := strings.Cut(row, " ")
		a := h.accounts[id]
		switch {
		case a == nil || a.opened == refused || a.opened == cutOff:
			return fmt.Errorf("account %s is in the tables, but was never requested, was refused, or its frame was cut off", id)
		case balance != decimal(a.balance):
			return fmt.Errorf("account %s was opened with %s, but requested with %s", id, balance, decimal(a.balance))
		case !a.inTables:
			a.inTables = true
			t.openAccount(id, product(a.balance, unit))
		}
	}
	for _, row := range placed {
		fields := strings.Fields(row)
		a := h.accounts[fields[0]]
		switch {
		case a == nil || a.sym != fields[1] || a.placed == refused || a.placed == cutOff:
			return fmt.Errorf("a deposit exists that no client sent: %s", row)
		case fields[2] != decimal(a.shares):
			return fmt.Errorf("account %s has %s shares of %s, but %s were placed", a.id, fields[2], a.sym, decimal(a.shares))
		case !a.placedInTables:
			a.placedInTables = true
			t.placeShares(a.sym, a.id, big.NewInt(a.shares))
		}
	}
	for _, a := range h.accounts {
		if a.opened == answered && !a.inTables || a.placed == answered && !a.placedInTables {
			return fmt.Errorf("account %s was answered with <created>, but it or its shares are lost", a.id)
		}
		if a.placedInTables && !a.inTables {
			return fmt.Errorf("account %s has shares, but is not in the tables", a.id)
		}
	}
	return nil
}
