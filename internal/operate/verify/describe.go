package verify

import (
	"fmt"
	"time"

	"outcry/internal/exchange"
)

// Describe returns a record in words: all its fields except its time.
func Describe(e *exchange.Event) string {
	if e.Ref == "" {
		return describe(e)
	}
	return describe(e) + "; ref " + string(e.Ref)
}

// describe returns a record in words without its time and its ref.
func describe(e *exchange.Event) string {
	switch e.Kind {
	case exchange.AccountOpened:
		return fmt.Sprintf("account %s opened with %s", e.Account, e.Balance)
	case exchange.SymbolMade:
		if e.SymbolRules != nil {
			return fmt.Sprintf("symbol %s made: %s", e.Symbol, describeSymbolRules(e.SymbolRules))
		}
		return fmt.Sprintf("symbol %s made", e.Symbol)
	case exchange.SharesDeposited:
		return fmt.Sprintf("%s %s placed with account %s", e.Deposited, e.Symbol, e.Account)
	case exchange.OrderCanceled:
		return fmt.Sprintf("order %d of account %s canceled, %s %s were open", e.Order, e.Account, e.Shares, e.Symbol)
	case exchange.SymbolHalted:
		return fmt.Sprintf("symbol %s halted: %s", e.Symbol, e.Reason)
	case exchange.SymbolResumed:
		return fmt.Sprintf("symbol %s resumed", e.Symbol)
	case exchange.OrdersCanceled:
		return fmt.Sprintf("all orders of account %s canceled%s%s", e.Account, describeCause(e.Cause),
			describeCancels(e.Cancels))
	case exchange.OrderContinued:
		return fmt.Sprintf("order %d of account %s continues after %d executions: %s%s", e.Order, e.Account, e.Before,
			describeTerms(e), describeFills(e))
	case exchange.OrderAccepted:
		return fmt.Sprintf("order %d of account %s: %s%s", e.Order, e.Account, describeTerms(e), describeFills(e))
	case exchange.OrderReduced:
		return fmt.Sprintf("order %d of account %s: %s %s removed, %s open%s", e.Order, e.Account, e.Shares, e.Symbol,
			e.Amend.Open, describeAmend(e.Amend))
	case exchange.OrderReplaced:
		return fmt.Sprintf("order %d of account %s replaces order %d, of which %s %s were open: %s%s%s", e.Order, e.Account,
			e.Amend.Old.Order, e.Amend.Old.Shares, e.Symbol, describeTerms(e), describeAmend(e.Amend), describeFills(e))
	case exchange.AccountRuled:
		return fmt.Sprintf("account %s: %s", e.Account, describeAccountRules(e.AccountRules))
	case exchange.SymbolRuled:
		return fmt.Sprintf("symbol %s: %s", e.Symbol, describeSymbolRules(e.SymbolRules))
	case exchange.SwitchSet:
		if e.Due == 0 {
			return fmt.Sprintf("the dead man's switch of account %s is off", e.Account)
		}
		return fmt.Sprintf("the dead man's switch of account %s is set to %s", e.Account,
			time.Unix(0, e.Due).UTC().Format(time.RFC3339Nano))
	}
	panic("a record of unknown kind " + e.Kind.String()) // DecodeEvent rejects unknown kinds
}

// describeTerms returns an order's terms in words. An order without instructions has the same text as in older
// versions.
func describeTerms(e *exchange.Event) string {
	s := e.Terms.Text(e.Shares, e.Symbol)
	unsent := func(bit exchange.Unsent, said string) string {
		if e.Unsent&bit != 0 {
			return " (" + said + ")"
		}
		return ""
	}
	if e.Type == exchange.Market {
		s += ", market" + unsent(exchange.UnsentLimit, "the limit is the exchange's")
	}
	if e.TIF != exchange.GTC {
		s += ", " + e.TIF.String()
	}
	if e.Post {
		s += ", post"
	}
	if e.STP != exchange.TradeWithSelf {
		s += ", stp " + e.STP.String() + unsent(exchange.UnsentSTP, "the account's default")
	}
	if e.OnDisconnect {
		s += ", cod"
	}
	if e.Hold != (exchange.Cash{}) {
		s += fmt.Sprintf(", holds %s for further parts", e.Hold)
	}
	return s
}

// describeFills lists an order's fills, the orders it canceled, and the shares that it did not keep open.
func describeFills(e *exchange.Event) (s string) {
	for _, f := range e.Fills {
		s += fmt.Sprintf("; filled %s at %s with order %d of account %s", f.Shares, f.Price, f.Resting, f.Account)
	}
	for _, c := range e.Own {
		s += fmt.Sprintf("; canceled order %d of the same account, %s were open", c.Order, c.Shares)
	}
	if e.Rest > 0 {
		s += fmt.Sprintf("; %s taken back", e.Rest)
	}
	return s
}

func describeCancels(cancels []exchange.Cancel) (s string) {
	for _, c := range cancels {
		s += fmt.Sprintf("; order %d, %s %s were open", c.Order, c.Shares, c.Symbol)
	}
	return s
}

// describeCause says what caused a cancel. An operator's cancel has no text, as in older versions.
func describeCause(c exchange.CancelCause) string {
	switch c {
	case exchange.ByClient:
		return " by its client"
	case exchange.ByDisconnect:
		return " that came over a connection which has ended"
	case exchange.BySwitch:
		return " by its dead man's switch, which is off now"
	case exchange.ByBlock:
		return " as it was blocked"
	case exchange.ByOperator:
	}
	return ""
}

// describeAmend describes what an amend requested, and how much its chain of orders had executed.
func describeAmend(a *exchange.Amendment) string {
	s := "; amended to"
	if a.Amount > 0 {
		s += fmt.Sprintf(" amount %s", a.Amount)
	}
	if a.Limit > 0 {
		s += fmt.Sprintf(" limit %s", a.Limit)
	}
	return s + fmt.Sprintf(", the chain of order %d had executed %s", a.First, a.Executed)
}

func describeAccountRules(r *exchange.AccountRules) string {
	s := "not blocked"
	if r.Block != nil {
		s = fmt.Sprintf("blocked since %s: %s", time.Unix(0, r.Block.Since).UTC().Format(time.RFC3339), r.Block.Reason)
	}
	s += ", stp " + r.STP.String()
	if r.SharesMax > 0 {
		s += fmt.Sprintf(", at most %s shares an order", r.SharesMax)
	}
	if r.NotionalMax != (exchange.Cash{}) {
		s += fmt.Sprintf(", at most %s dollars an order", r.NotionalMax)
	}
	if r.OpenMax > 0 {
		s += fmt.Sprintf(", at most %d open orders", r.OpenMax)
	}
	return s
}

func describeSymbolRules(r *exchange.SymbolRules) string {
	s := fmt.Sprintf("tick %s, lot %s", max(r.Tick, 1), max(r.Lot, 1))
	if r.Protect > 0 {
		s += fmt.Sprintf(", protection of market orders %s", r.Protect)
	}
	if r.Band > 0 {
		s += fmt.Sprintf(", price band %s", r.Band)
	}
	return s
}
