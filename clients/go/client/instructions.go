package client

import (
	"fmt"
	"math"
	"time"

	"outcry/internal/door/xml/wire"
)

// TimeInForce says how long an order may stay open (FIX tag 59).
type TimeInForce string

// The times in force. None is as GTC, and of a market order as IOC.
const (
	GTC TimeInForce = "GTC" // good till canceled: what remains stays open
	IOC TimeInForce = "IOC" // immediate or cancel: what does not execute at once is canceled
	FOK TimeInForce = "FOK" // fill or kill: all of it at once, or it is refused
)

// SelfTrade says what is canceled where an order meets one of its own account (self-trade
// prevention). None is the account's default, which an operator sets.
type SelfTrade string

// The modes of self-trade prevention.
const (
	CancelNewest SelfTrade = "newest" // what remains of the incoming order
	CancelOldest SelfTrade = "oldest" // the resting order, and the incoming one goes on
	CancelBoth   SelfTrade = "both"
)

// OnDisconnect says whether an order is canceled when its connection ends. None is as
// Options.CancelOnDisconnect says.
type OnDisconnect string

// The values of OnDisconnect.
const (
	Cancels OnDisconnect = "yes"
	Stays   OnDisconnect = "no"
)

// Instructions are what an order asks beside its amount and limit. The zero value asks nothing.
type Instructions struct {
	TIF    TimeInForce
	Post   bool // refused where it would execute at once (FIX ExecInst 6)
	Market bool // at the best prices, up to the limit if there is one, else to the symbol's protection price
	STP    SelfTrade
	COD    OnDisconnect // cancel on disconnect
	// Report, also of an amend, has the result tell in Status what the order came to at once.
	Report bool
}

// With returns an order with instructions, in place of those that it had.
func (c Command) With(i Instructions) Command {
	c.Instructions = i
	return c
}

// BuyAtMarket places an order to buy shares at once, at the best prices that there are.
func BuyAtMarket(account, symbol string, shares Decimal) Command {
	return Buy(account, symbol, shares, Decimal{}).With(Instructions{Market: true})
}

// SellAtMarket places an order to sell shares at once, at the best prices that there are.
func SellAtMarket(account, symbol string, shares Decimal) Command {
	return Sell(account, symbol, shares, Decimal{}).With(Instructions{Market: true})
}

// Amend changes one of the account's orders. amount is its new total, with what is executed
// already, negative for an order that sells; limit is its new limit. What is 0 stays as it is.
// A smaller amount at the same limit keeps the order's place. Anything else replaces it by a new order.
func Amend(account string, order OrderID, amount, limit Decimal) Command {
	return Command{Kind: KindAmend, Account: account, Order: order, Amount: amount, Limit: limit}
}

// AmendRef is Amend for the account's order with a ref, or for the one that has replaced it.
func AmendRef(account, ref string, amount, limit Decimal) Command {
	return Command{Kind: KindAmend, Account: account, Ref: ref, Amount: amount, Limit: limit}
}

// WithNewRef returns an amend with a ref of its own: it is done once, however often it is sent, and
// the ref names what it leaves.
func (c Command) WithNewRef(ref string) Command {
	c.NewRef = ref
	return c
}

// CancelAll cancels all that an account has open, of one symbol if that is not "".
func CancelAll(account, symbol string) Command {
	return Command{Kind: KindCancelAll, Account: account, Symbol: symbol}
}

// CancelAfter has all that an account then has open canceled after that time, in whole seconds, up
// to a day, unless it is sent again before: a dead man's switch. 0 turns it off.
func CancelAfter(account string, after time.Duration) Command {
	return Command{Kind: KindCancelAfter, Account: account, After: after}
}

// ShowAccount asks what an account has.
func ShowAccount(account string) Command { return Command{Kind: KindShowAccount, Account: account} }

// ListOrders asks for the account's open orders, of one symbol if that is not "", of which the
// number is above after: up to 1,000.
func ListOrders(account, symbol string, after OrderID) Command {
	return Command{Kind: KindListOrders, Account: account, Symbol: symbol, Order: after}
}

// Newest, as what fills come after, asks for the newest.
const Newest = math.MaxUint64

// ListFills asks for the account's executions of which the number is above after, oldest first: up
// to 1,000. With Newest it asks for its last ones.
func ListFills(account string, after uint64) Command {
	return Command{Kind: KindListFills, Account: account, Fill: after}
}

// checkInstructions returns what is wrong with what an order asks, so that the exchange could not say
// it: it must be possible to write it.
func (c *Command) checkInstructions() error {
	switch {
	case c.TIF != "" && c.TIF != GTC && c.TIF != IOC && c.TIF != FOK:
		return fmt.Errorf("client: %v: tif %.80q is not one of GTC, IOC, FOK", c, string(c.TIF))
	case c.STP != "" && c.STP != CancelNewest && c.STP != CancelOldest && c.STP != CancelBoth:
		return fmt.Errorf("client: %v: stp %.80q is not one of newest, oldest, both", c, string(c.STP))
	case c.COD != "" && c.COD != Cancels && c.COD != Stays:
		return fmt.Errorf("client: %v: cod %.80q is not yes or no", c, string(c.COD))
	case !c.orders() && c.Instructions != Instructions{Report: c.Kind == KindAmend && c.Report}:
		return fmt.Errorf("client: %v: it takes no instructions", c)
	case c.NewRef != "" && c.Kind != KindAmend:
		return fmt.Errorf("client: %v: only an amend takes a new ref", c)
	case c.NewRef != "" && !validRef(c.NewRef):
		return fmt.Errorf("client: new ref %.80q is not 1 to 64 of A-Z a-z 0-9 . _ : -", c.NewRef)
	case c.After%time.Second != 0 || c.After < 0:
		return fmt.Errorf("client: %v: %v is not a number of whole seconds", c, c.After)
	}
	return nil
}

// appendTo adds the command's element to a frame.
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

// orderAttrs are the attributes of an order, in the protocol's order.
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

// named is the attribute that names an order.
func (c *Command) named() []wire.Attr {
	if c.Ref != "" {
		return []wire.Attr{{Name: "ref", Value: c.Ref}}
	}
	return []wire.Attr{{Name: "id", Value: c.Order.String()}}
}

// given is the text of a number, "" if it is 0, which is not to be sent.
func given(d Decimal) string {
	if d == (Decimal{}) {
		return ""
	}
	return d.String()
}

// bare reports whether the element has no attribute that an error about it would repeat. Sent alone,
// such an error could not be told from the exchange's last words.
func (c *Command) bare() bool {
	switch c.Kind {
	case KindCancelAfter, KindShowAccount, KindListFills:
		return true
	case KindCancelAll, KindListOrders:
		return c.Symbol == ""
	}
	return false
}

// padded reports whether a frame gets a second element, of which the answer is dropped: a query that
// the exchange refuses without a look at anything.
func padded(commands []Command) bool { return len(commands) == 1 && commands[0].bare() }
