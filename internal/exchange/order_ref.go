package exchange

import "fmt"

// RefCharsMax is the maximum length of a Ref, in characters.
const RefCharsMax = 64

// Ref is a client order id: a name that a client gives to a command that makes something, so that it can repeat the
// command without a second effect. An account can use each ref once: for an order, for its own opening, or for a
// deposit of shares. "" means no ref.
type Ref string

// ParseRef parses a ref: 1 to 64 characters of A-Z, a-z, 0-9 and . _ : -. The error names
// the value.
func ParseRef[S string | []byte](s S) (Ref, error) {
	if len(s) == 0 || len(s) > RefCharsMax {
		return "", fmt.Errorf("ref %s is not 1 to %d characters", quote(s), RefCharsMax)
	}
	for i := range len(s) {
		if !isRefChar(s[i]) {
			return "", fmt.Errorf("ref %s has a character other than A-Z, a-z, 0-9 and . _ : -", quote(s))
		}
	}
	return Ref(s), nil
}

func isRefChar(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c):
		return true
	}
	return c == '.' || c == '_' || c == ':' || c == '-'
}

// RefKey identifies a ref across all accounts.
type RefKey struct {
	Account AccountID
	Ref     Ref
}

// RefUse is what a ref was used for: the content of the command, with the values that the client sent, and the
// order that it made.
type RefUse struct {
	Kind     CommandKind // OpenAccount, DepositShares, PlaceOrder or AmendOrder
	Symbol   Symbol      // symbol of the order, or of the deposit of shares
	Terms                // terms of an order; for an AmendOrder the side, and the new limit or 0
	Quantity Int128      // the balance, the deposited shares, the shares of the order, or the new total or 0
	Order    OrderID     // first order of the chain; for an AmendOrder the resulting order; 0 if none was made
	Amend    *AmendUse   // set for an AmendOrder
}

// AmendUse is what the ref of an amend was used for. It is immutable once it is in a RefUse.
type AmendUse struct {
	First OrderID // first order of the chain that was amended
	Named OrderID // the order that was amended
	Amended
}

// First returns the first order of the chain, as Book.Newest needs it, or 0 if the ref names no order.
func (u *RefUse) First() OrderID {
	if u.Amend != nil {
		return u.Amend.First
	}
	return u.Order
}

// Same reports whether two uses have the same content, whatever order resulted. Two amends are the same only
// if they amend the same chain.
func (u RefUse) Same(v RefUse) bool {
	if u.Amend != nil && v.Amend != nil && u.Amend.First != v.Amend.First {
		return false
	}
	u.Order, u.Amend, v.Order, v.Amend = 0, nil, 0, nil
	return u == v
}

// Makes reports whether a command of this kind makes something that its Ref names. The Ref of an AmendOrder names
// an existing order; the amend's own ref is CommandMore.NewRef.
func (k CommandKind) Makes() bool { return k == OpenAccount || k == DepositShares || k == PlaceOrder }

// Use returns the RefUse of c's ref, or of its NewRef if c is an AmendOrder. c must be an AmendOrder, or of a kind for
// which Makes is true. For an AmendOrder the caller sets Amend.First.
func (c *Command) Use() RefUse {
	u := RefUse{Kind: c.Kind, Symbol: c.Symbol, Terms: c.Terms}
	switch c.Kind {
	case OpenAccount:
		u.Quantity = Int128(c.Balance)
	case DepositShares:
		u.Quantity = Int128(c.Deposited)
	case PlaceOrder:
		u.Quantity = Int128(c.Shares.Position())
	case AmendOrder:
		u.Quantity, u.Amend = Int128(c.Shares.Position()), new(AmendUse)
		u.Terms = Terms{Side: c.Side, Limit: c.Limit}
	case MakeSymbol, QueryOrder, CancelOrder, ShowOrder, CancelAll, SetSwitch, ShowAccount, ListOrders, ListFills:
		panic("exchange: a command of kind " + c.Kind.String() + " cannot have a ref")
	}
	return u
}

// Names returns the order that a query or a cancel is about: c.Order, or the order of its
// ref, which the engine has looked up into r. It is 0 if no order has the ref.
func (c *Command) Names(r *Result) OrderID {
	if c.Ref == "" {
		return c.Order
	}
	return r.Order
}

// Use returns the RefUse of e's ref. e must be of a kind that can have a ref.
func (e *Event) Use() RefUse {
	switch e.Kind {
	case AccountOpened:
		return RefUse{Kind: OpenAccount, Quantity: Int128(e.Balance)}
	case SharesDeposited:
		return RefUse{Kind: DepositShares, Symbol: e.Symbol, Quantity: Int128(e.Deposited)}
	case OrderAccepted:
		return RefUse{Kind: PlaceOrder, Terms: e.Sent(), Symbol: e.Symbol,
			Quantity: Int128(e.Shares.Position()), Order: e.Order}
	case OrderReduced, OrderReplaced:
		return e.useOfAmend()
	case SymbolMade, OrderCanceled, SymbolHalted, SymbolResumed, OrdersCanceled, OrderContinued, AccountRuled,
		SymbolRuled, SwitchSet:
	}
	panic("exchange: an event of kind " + e.Kind.String() + " cannot have a ref")
}

// useOfAmend is Use for an amend.
func (e *Event) useOfAmend() RefUse {
	a := &AmendUse{First: e.Amend.First, Named: e.Order}
	if e.Kind == OrderReplaced {
		a.Named, a.By = e.Amend.Old.Order, e.Order
	} else if a.Open, a.Reduced = e.Amend.Open, e.Shares; a.Reduced > 0 {
		a.Time = e.Time
	}
	u := RefUse{Kind: AmendOrder, Symbol: e.Symbol, Terms: Terms{Limit: e.Amend.Limit},
		Quantity: Int128(e.Amend.Amount.Position()), Order: e.Order, Amend: a}
	if e.Amend.Amount != 0 {
		u.Side = e.Side // the side is part of the amount
	}
	return u
}
