package exchange

import (
	"math"

	"pgregory.net/rapid"
)

// anyEvent draws events of every kind, with values from their whole ranges.
func anyEvent() *rapid.Generator[Event] {
	account := rapid.StringMatching(`[0-9]{1,64}`)
	symbol := rapid.StringMatching(`[A-Za-z0-9]{1,32}`)
	order := rapid.Int64Range(1, orderUnitsMax-1)
	return rapid.Custom(func(t *rapid.T) Event {
		e := Event{
			Kind: EventKind(rapid.IntRange(1, int(eventKindMax)).Draw(t, "kind")),
			Time: rapid.Int64().Draw(t, "time"),
		}
		if e.Kind.ofAccount() {
			e.Account = AccountID(account.Draw(t, "account"))
		}
		if e.Kind.ofSymbol() {
			e.Symbol = Symbol(symbol.Draw(t, "symbol"))
		}
		units := mul64(rapid.Uint64Range(0, wholeMax-1).Draw(t, "whole"), 1e8).
			Add(Int128{Lo: rapid.Uint64Range(1, 1e8-1).Draw(t, "fraction")})
		switch e.Kind {
		case AccountOpened:
			e.Balance = Cash(mul64(rapid.Uint64().Draw(t, "balance"), 1e14))
		case SharesDeposited:
			e.Deposited = Position(units)
		case SymbolHalted:
			e.Reason = anyReason().Draw(t, "reason")
		case OrdersCanceled:
			e.Cancels = anyCancels(symbol, order).Draw(t, "cancels")
			e.Cause = CancelCause(rapid.IntRange(0, int(ByBlock)).Draw(t, "cause"))
		case SymbolMade, SymbolRuled:
			e.SymbolRules = anyRules(e.Kind).Draw(t, "rules")
		case AccountRuled:
			e.AccountRules = anyAccountRules().Draw(t, "rules")
		case SwitchSet:
			e.Due = rapid.Int64Min(0).Draw(t, "due")
		case OrderAccepted, OrderCanceled, OrderContinued:
			e.Order = OrderID(rapid.Uint64Range(1, math.MaxInt64).Draw(t, "order"))
			e.Side = rapid.SampledFrom([]Side{Buy, Sell}).Draw(t, "side")
			e.Shares, e.Limit = Shares(order.Draw(t, "shares")), Price(order.Draw(t, "limit"))
		}
		if e.Kind == OrderContinued {
			e.Order, e.Before = max(e.Order, 2), rapid.IntRange(1, math.MaxInt32-1).Draw(t, "before")
		}
		if e.Kind == OrderAccepted || e.Kind == OrderContinued {
			left := e.Shares
			for e.Order > 1 && left > 0 && (e.Kind == OrderContinued && len(e.Fills) == 0 ||
				rapid.Bool().Draw(t, "another fill")) {
				n := Shares(rapid.Int64Range(1, int64(left)).Draw(t, "filled"))
				left -= n
				e.Fills = append(e.Fills, Fill{
					Resting: OrderID(rapid.Uint64Range(1, uint64(e.Order-1)).Draw(t, "resting")),
					Account: AccountID(account.Draw(t, "owner")), Shares: n, Price: Price(order.Draw(t, "price"))})
			}
		}
		if e.Kind == OrderAccepted || e.Kind == OrderContinued || e.Kind == OrderCanceled {
			drawInstructions(t, &e)
		}
		if e.Kind == OrderReduced || e.Kind == OrderReplaced {
			drawAmend(t, &e)
		}
		if e.Kind == AccountOpened || e.Kind == SharesDeposited || e.Kind == OrderAccepted {
			e.Ref = Ref(rapid.StringMatching(`([A-Za-z0-9._:-]{1,64})?`).Draw(t, "ref"))
		}
		return e
	})
}

func anyRules(kind EventKind) *rapid.Generator[*SymbolRules] {
	return rapid.Custom(func(t *rapid.T) *SymbolRules {
		r := &SymbolRules{Tick: Price(rapid.Int64Range(0, orderUnitsMax-1).Draw(t, "tick")),
			Lot:     Shares(rapid.Int64Range(0, orderUnitsMax-1).Draw(t, "lot")),
			Protect: Fraction(rapid.Uint32().Draw(t, "protect")), Band: Fraction(rapid.Uint32().Draw(t, "band"))}
		if kind == SymbolMade && (*r == SymbolRules{} || rapid.Bool().Draw(t, "without rules")) {
			return nil
		}
		return r
	})
}

func anyAccountRules() *rapid.Generator[*AccountRules] {
	return rapid.Custom(func(t *rapid.T) *AccountRules {
		r := &AccountRules{STP: anySTP().Draw(t, "stp"), SharesMax: Shares(rapid.Int64Min(0).Draw(t, "shares")),
			NotionalMax: Cash{Hi: rapid.Int64Min(0).Draw(t, "upper"), Lo: rapid.Uint64().Draw(t, "lower")},
			OpenMax:     rapid.Int64Min(0).Draw(t, "open")}
		if rapid.Bool().Draw(t, "blocked") {
			r.Block = &Halt{Since: rapid.Int64().Draw(t, "since"), Reason: anyReason().Draw(t, "reason")}
		}
		return r
	})
}

func anySTP() *rapid.Generator[SelfTrade] {
	return rapid.SampledFrom([]SelfTrade{TradeWithSelf, CancelNewest, CancelOldest, CancelBoth})
}

// drawOwn draws the entries of Own for e, an order: resting orders of the same account that it canceled.
func drawOwn(t *rapid.T, e *Event, most int) (own []Cancel) {
	for len(own) < most && e.Order > 1 && rapid.Bool().Draw(t, "another own order") {
		own = append(own, Cancel{Order: OrderID(rapid.Uint64Range(1, uint64(e.Order-1)).Draw(t, "own order")),
			Terms: Terms{Side: e.Side.opposite(), Post: rapid.Bool().Draw(t, "post"), STP: anySTP().Draw(t, "its stp"),
				Limit: Price(rapid.Int64Range(1, orderUnitsMax-1).Draw(t, "its limit"))},
			Shares: Shares(rapid.Int64Range(1, orderUnitsMax-1).Draw(t, "its shares"))})
	}
	return own
}

// drawInstructions sets order instructions of all kinds, with their consequences, in an order that has fills.
func drawInstructions(t *rapid.T, e *Event) {
	if rapid.Bool().Draw(t, "plain") {
		return
	}
	e.TIF = rapid.SampledFrom([]TimeInForce{GTC, IOC, FOK}).Draw(t, "tif")
	if e.STP = anySTP().Draw(t, "stp"); e.TIF == GTC {
		e.Post = rapid.Bool().Draw(t, "post")
	} else if rapid.Bool().Draw(t, "market") {
		e.Type = Market
	}
	if e.Kind == OrderCanceled {
		return
	}
	if left := e.Open(); left > 0 && (e.TIF != GTC || e.STP == CancelNewest || e.STP == CancelBoth) &&
		rapid.Bool().Draw(t, "taken back") {
		e.Rest = left
	}
	switch {
	case e.STP == CancelOldest:
		e.Own = drawOwn(t, e, 3)
	case e.STP == CancelBoth && e.Rest > 0:
		e.Own = drawOwn(t, e, 1)
	}
	if e.Kind != OrderAccepted {
		if e.STP == CancelOldest && rapid.Bool().Draw(t, "begun without executions") {
			e.Before = 0
		}
		return
	}
	if e.OnDisconnect = rapid.Bool().Draw(t, "cod"); e.Type == Market && rapid.Bool().Draw(t, "limit unsent") {
		e.Unsent |= UnsentLimit
	}
	if e.STP != TradeWithSelf && rapid.Bool().Draw(t, "stp unsent") {
		e.Unsent |= UnsentSTP
	}
	if e.marketBuy() && e.Open() > 0 {
		e.Hold = Cash{Lo: rapid.Uint64Min(1).Draw(t, "hold")}
	}
}

// drawAmend sets the fields of e for an amend.
func drawAmend(t *rapid.T, e *Event) {
	limit, most := rapid.Int64Range(1, orderUnitsMax-1), int64(orderUnitsMax/4)
	e.Order = OrderID(rapid.Uint64Range(2, math.MaxInt64).Draw(t, "order"))
	e.Side, e.STP, e.Post = rapid.SampledFrom([]Side{Buy, Sell}).
		Draw(t, "side"),
		anySTP().Draw(t, "stp"),
		rapid.Bool().
			Draw(t, "post")
	e.Limit, e.Shares = Price(limit.Draw(t, "limit")), Shares(rapid.Int64Range(1, most).Draw(t, "shares"))
	e.Ref = Ref(rapid.StringMatching(`[A-Za-z0-9._:-]{1,64}`).Draw(t, "ref"))
	a := &Amendment{First: OrderID(rapid.Uint64Range(1, uint64(e.Order-1)).Draw(t, "first")),
		Executed: Shares(rapid.Int64Range(0, most).Draw(t, "executed"))}
	e.Amend = a
	if e.Kind == OrderReduced {
		a.Open = Shares(rapid.Int64Range(1, most).Draw(t, "open"))
		if a.Amount = a.Executed + a.Open; rapid.Bool().Draw(t, "for its ref alone") {
			e.Shares, a.Amount, a.Limit = 0, 0, e.Limit
		}
		return
	}
	a.Old = Cancel{
		Order:  OrderID(rapid.Uint64Range(uint64(a.First), uint64(e.Order-1)).Draw(t, "old")),
		Terms:  e.Terms,
		Shares: e.Shares,
	}
	if rapid.Bool().Draw(t, "another limit") {
		a.Limit, a.Old.Limit = e.Limit, Price(limit.Draw(t, "old limit"))
	}
	if rapid.Bool().Draw(t, "another amount") {
		a.Amount, a.Old.Shares = a.Executed+e.Shares, Shares(rapid.Int64Range(1, most).Draw(t, "old shares"))
	}
	if e.STP == CancelOldest {
		e.Own = drawOwn(t, e, 2)
	}
	e.OnDisconnect = rapid.Bool().Draw(t, "cod")
}
