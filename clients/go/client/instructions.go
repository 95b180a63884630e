package client

import (
	"fmt"
	"math"
	"time"

	"outcry/internal/door/xml/wire"
)

// TimeInForce determines how long an order may stay open (FIX tag 59).
type TimeInForce string

// The times in force. The empty one means GTC, and IOC for a market order.
const (
	GTC TimeInForce = "GTC" // good till canceled: the remainder stays open
	IOC TimeInForce = "IOC" // immediate or cancel: what does not execute at once is canceled
	FOK TimeInForce = "FOK" // fill or kill: refused unless all of it executes at once
)

// SelfTrade says what is canceled if an order meets one of its own account (self-trade prevention). The
// empty value means the account's default, which an operator sets.
type SelfTrade string

// The modes of self-trade prevention.
const (
	CancelNewest SelfTrade = "newest" // what remains of the incoming order
	CancelOldest SelfTrade = "oldest" // the resting order; the incoming one continues
	CancelBoth   SelfTrade = "both"
)

// OnDisconnect says whether an order is canceled when its connection ends. The empty value follows
// Options.CancelOnDisconnect.
type OnDisconnect string

// The values of OnDisconnect.
const (
	Cancels OnDisconnect = "yes"
	Stays   OnDisconnect = "no"
)

// Instructions are the optional attributes of an order besides its amount and limit. The zero value has
// none.
type Instructions struct {
	TIF    TimeInForce
	Post   bool // refused if it would execute at once (FIX ExecInst 6)
	Market bool // executes at the best prices, up to the limit or else the symbol's protection price
	STP    SelfTrade
	COD    OnDisconnect // cancel on disconnect
	// Report asks for the order's status right after the order or amend, in Result.Status.
	Report bool
}

// With returns the order with these instructions, which replace its previous ones.
func (c Command) With(i Instructions) Command {
	c.Instructions = i
	return c
}

// BuyAtMarket returns an order to buy shares at once, at the best available prices.
func BuyAtMarket(account, symbol string, shares Decimal) Command {
	return Buy(account, symbol, shares, Decimal{}).With(Instructions{Market: true})
}

// SellAtMarket returns an order to sell shares at once, at the best available prices.
func SellAtMarket(account, symbol string, shares Decimal) Command {
	return Sell(account, symbol, shares, Decimal{}).With(Instructions{Market: true})
}

// Amend changes one of the account's orders. amount is its new total, including what has executed, negative
// for a sell order; limit is its new limit. 0 keeps the value. A smaller amount at the same limit keeps the
// order's priority. Any other change replaces the order by a new one.
func Amend(account string, order OrderID, amount, limit Decimal) Command {
	return Command{Kind: KindAmend, Account: account, Order: order, Amount: amount, Limit: limit}
}

// AmendRef is Amend for the account's order with a ref, or for the order that has replaced it.
func AmendRef(account, ref string, amount, limit Decimal) Command {
	return Command{Kind: KindAmend, Account: account, Ref: ref, Amount: amount, Limit: limit}
}

// WithNewRef returns the amend with its own ref. The exchange executes it once, however often it is sent,
// and the ref then names the resulting order.
func (c Command) WithNewRef(ref string) Command {
	c.NewRef = ref
	return c
}

// CancelAll cancels all open orders of an account, or only those of one symbol if symbol is not "".
func CancelAll(account, symbol string) Command {
	return Command{Kind: KindCancelAll, Account: account, Symbol: symbol}
}

// CancelAfter arms a dead man's switch: the exchange cancels all orders that the account has open after the
// given time, unless CancelAfter is sent again before. The time is in whole seconds, up to a day; 0 disarms
// the switch.
func CancelAfter(account string, after time.Duration) Command {
	return Command{Kind: KindCancelAfter, Account: account, After: after}
}

// ShowAccount asks for an account's balance and positions.
func ShowAccount(account string) Command { return Command{Kind: KindShowAccount, Account: account} }

// ListOrders asks for up to 1,000 open orders of the account whose numbers are above after, of one symbol
// if symbol is not "".
func ListOrders(account, symbol string, after OrderID) Command {
	return Command{Kind: KindListOrders, Account: account, Symbol: symbol, Order: after}
}

// Newest as the argument after of ListFills asks for the newest fills.
const Newest = math.MaxUint64

// ListFills asks for up to 1,000 executions of the account whose numbers are above after, oldest first.
// With Newest it asks for the last ones.
func ListFills(account string, after uint64) Command {
	return Command{Kind: KindListFills, Account: account, Fill: after}
}

// checkInstructions returns an error for instructions that cannot be encoded, which the exchange therefore
// could not refuse itself.
func (c *Command) checkInstructions() error {
	switch {
	case c.TIF != "" && c.TIF != GTC && c.TIF != IOC && c.TIF != FOK:
		return fmt.Errorf("client: %v: tif %.80q is not one of GTC, IOC, FOK", c, string(c.TIF))
	case c.STP != "" && c.STP != CancelNewest && c.STP != CancelOldest && c.STP != CancelBoth:
		return fmt.Errorf("client: %v: stp %.80q is not one of newest, oldest, both", c, string(c.STP))
	case c.COD != "" && c.COD != Cancels && c.COD != Stays:
		return fmt.Errorf("client: %v: cod %.80q is not yes or no", c, string(c.COD))
	case !c.orders() && c.Instructions != Instructions{Report: c.Kind == KindAmend && c.Report}:
		return fmt.Errorf("client: %v: it cannot have instructions", c)
	case c.NewRef != "" && c.Kind != KindAmend:
		return fmt.Errorf("client: %v: only an amend can have a new ref", c)
	case c.NewRef != "" && !validRef(c.NewRef):
		return fmt.Errorf("client: new ref %.80q must have 1 to 64 characters of A-Z a-z 0-9 . _ : -", c.NewRef)
	case c.After%time.Second != 0 || c.After < 0:
		return fmt.Errorf("client: %v: %v is not a number of whole seconds", c, c.After)
	}
	return nil
}

// appendTo appends the command's element to a frame.
func (c *Command) appendTo(t *wire.Transactions) {
	switch {
	case c.orders():
		t.Element("order", c.orderAttrs()...)
	case c.Kind == KindQuery:
		t.Element("query", c.named()...)
	case c.Kind == KindCancel:
		t.Element("cancel", c.named()...)
	case c.Kind == KindAmend:
		t.Element("amend", append(c.named(), wire.Attr{Name: "amount", Value: given(c.Amount)},
			wire.Attr{Name: "limit", Value: given(c.Limit)}, c.report(), wire.Attr{Name: "newref", Value: c.NewRef})...)
	case c.Kind == KindCancelAll:
		t.Element("cancel-all", wire.Attr{Name: "sym", Value: c.Symbol})
	case c.Kind == KindCancelAfter:
		t.Element("cancel-after", wire.Attr{Name: "seconds", Value: fmt.Sprint(int64(c.After / time.Second))})
	case c.Kind == KindShowAccount:
		t.Element("account")
	case c.Kind == KindListOrders:
		after := ""
		if c.Order != 0 {
			after = c.Order.String()
		}
		t.Element("orders", wire.Attr{Name: "sym", Value: c.Symbol}, wire.Attr{Name: "after", Value: after})
	case c.Kind == KindListFills && c.Fill == Newest:
		t.Element("fills")
	case c.Kind == KindListFills:
		t.Element("fills", wire.Attr{Name: "after", Value: fmt.Sprint(c.Fill)})
	}
}

// orderAttrs returns the attributes of an order, in the protocol's order.
func (c *Command) orderAttrs() []wire.Attr {
	limit := c.Limit.String()
	typ, post := "", ""
	if c.Market {
		typ, limit = "market", given(c.Limit)
	}
	if c.Post {
		post = "yes"
	}
	return []wire.Attr{{Name: "sym", Value: c.Symbol}, {Name: "amount", Value: c.signed().String()},
		{Name: "limit", Value: limit}, {Name: "type", Value: typ}, {Name: "tif", Value: string(c.TIF)},
		{Name: "post", Value: post}, {Name: "stp", Value: string(c.STP)}, {Name: "cod", Value: string(c.COD)},
		c.report(), {Name: "ref", Value: c.Ref}}
}

func (c *Command) report() wire.Attr {
	if c.Report {
		return wire.Attr{Name: "report", Value: "full"}
	}
	return wire.Attr{}
}

// named returns the attribute that names an order: its ref or its number.
func (c *Command) named() []wire.Attr {
	if c.Ref != "" {
		return []wire.Attr{{Name: "ref", Value: c.Ref}}
	}
	return []wire.Attr{{Name: "id", Value: c.Order.String()}}
}

// given returns the text of a number, or "" for 0, which is not sent.
func given(d Decimal) string {
	if d == (Decimal{}) {
		return ""
	}
	return d.String()
}

// bare reports whether the element has no attribute that an error about it would repeat. If such a command
// is sent alone, an error about it cannot be distinguished from the exchange's last words.
func (c *Command) bare() bool {
	switch c.Kind {
	case KindCancelAfter, KindShowAccount, KindListFills:
		return true
	case KindCancelAll, KindListOrders:
		return c.Symbol == ""
	}
	return false
}

// padded reports whether a frame gets a second element, whose answer is dropped: a query that the exchange
// always refuses without any work.
func padded(commands []Command) bool { return len(commands) == 1 && commands[0].bare() }
