package client

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"outcry/internal/door/xml/wire"
)

// Cash is an exact decimal number of dollars, in the exchange's format. A balance may have up to 16 fractional digits,
// which is more than a Decimal has.
type Cash string

// Rat returns the number as a fraction.
func (c Cash) Rat() *big.Rat {
	r, ok := new(big.Rat).SetString(string(c))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// Account is the balance and the positions of an account.
type Account struct {
	ID        string
	Balance   Cash       // dollars that the account can spend
	Held      Cash       // dollars held for its open orders
	Positions []Position // positions other than 0, in order of their symbols
}

// Position is an account's shares of a symbol.
type Position struct {
	Symbol string
	Shares Decimal // shares that the account can sell
	Held   Decimal // shares held for its open orders
}

// OpenOrder is an order with open shares.
type OpenOrder struct {
	Order  OrderID
	Symbol string
	Side   Kind    // KindBuy or KindSell
	Shares Decimal // total of the order, including executed shares: the amount that an amend changes
	Limit  Decimal
	Open   Decimal
	Time   time.Time // to the second
	Instructions
}

// Fill is an execution from the view of one of its two accounts.
type Fill struct {
	N      uint64 // number of the account's fill: 1, 2, 3 … without a gap
	Order  OrderID
	Symbol string
	Side   Kind // KindBuy or KindSell
	Shares Decimal
	Price  Decimal
	Time   time.Time // to the second
}

// takeView fills r from the answer to a command that shows an account, its orders or its fills. The amount of an open
// order becomes unsigned.
func (r *Result) takeView(a *wire.Answer) (err error) {
	if r.More = a.More; r.More {
		if r.After, err = r.Command.nextAfter(a.After); err != nil {
			return err
		}
	}
	if r.Command.Kind == KindShowAccount {
		r.Account = &Account{ID: a.ID, Balance: Cash(a.Balance), Held: Cash(a.Held)}
		for _, cash := range []Cash{r.Account.Balance, r.Account.Held} {
			if len(cash) > cashLen || !onlyDigits(digitsOf(string(cash))) {
				return fmt.Errorf("%.64q is not a decimal number", string(cash))
			}
		}
	}
	for i := range a.Parts {
		p := reader{part: &a.Parts[i]}
		switch a.Parts[i].Name {
		case "position":
			if r.Account != nil {
				r.Account.Positions = append(r.Account.Positions,
					Position{Symbol: p.part.Get("sym"), Shares: p.number("shares"), Held: p.number("held")})
			}
		case "order":
			r.Orders = append(r.Orders, p.order())
		case "fill":
			r.Fills = append(r.Fills, Fill{N: p.count("n"), Order: OrderID(p.count("id")), Symbol: p.part.Get("sym"),
				Side: p.side(), Shares: p.number("shares"), Price: p.number("price"), Time: p.time()})
		}
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// nextAfter parses the number after which the next page of a list begins. It must be above the one that c requested,
// because otherwise a caller that requests page after page would never finish.
func (c *Command) nextAfter(text string) (uint64, error) {
	asked := uint64(c.Order)
	if c.Kind == KindListFills && c.Fill != Newest {
		asked = c.Fill
	}
	after, err := strconv.ParseUint(text, 10, 63)
	if err != nil || after <= asked {
		return 0, fmt.Errorf("the page ends after %.64q, which is not a number above %d", text, asked)
	}
	return after, nil
}

// cashLen bounds the text of a Cash.
const cashLen = 64

// digitsOf returns a number without its point.
func digitsOf(s string) string {
	for i := range len(s) {
		if s[i] == '.' {
			return s[:i] + s[i+1:]
		}
	}
	return s
}

// reader parses the attributes of a part of an answer. err is the first error.
type reader struct {
	part *wire.Part
	err  error
}

func (p *reader) keepError(err error) {
	if p.err == nil {
		p.err = err
	}
}

// number parses a number that is at least 0.
func (p *reader) number(name string) Decimal {
	d, err := ParseDecimal(p.part.Get(name))
	if err == nil && d.Sign() < 0 {
		err = fmt.Errorf("%.64q is less than 0", p.part.Get(name))
	}
	p.keepError(err)
	return d
}

func (p *reader) count(name string) uint64 {
	n, err := strconv.ParseUint(p.part.Get(name), 10, 63)
	if err != nil || n == 0 {
		p.keepError(fmt.Errorf("%s %.64q is not a positive whole number", name, p.part.Get(name)))
	}
	return n
}

func (p *reader) time() time.Time {
	t, err := parseTime(p.part.Get("time"))
	p.keepError(err)
	return t
}

func (p *reader) side() Kind {
	switch side := p.part.Get("side"); side {
	case "buy":
		return KindBuy
	case "sell":
		return KindSell
	default:
		p.keepError(fmt.Errorf("%.64q is not a side", side))
		return 0
	}
}

func (p *reader) order() OpenOrder {
	o := OpenOrder{Order: OrderID(p.count("id")), Symbol: p.part.Get("sym"), Side: KindBuy, Limit: p.number("limit"),
		Open: p.number("open"), Time: p.time()}
	amount, err := ParseDecimal(p.part.Get("amount"))
	p.keepError(err)
	if o.Shares = amount; amount.Sign() < 0 {
		o.Side, o.Shares = KindSell, amount.Neg()
	}
	o.Post, o.STP, o.COD = p.part.Get("post") == "yes", SelfTrade(p.part.Get("stp")), OnDisconnect(p.part.Get("cod"))
	return o
}

// Amend changes an order and returns its number from then on: the same if the order keeps its priority, else the
// number of the order that has replaced it. See the function Amend.
func (c *Client) Amend(ctx context.Context, account string, order OrderID, amount, limit Decimal) (OrderID, error) {
	r, err := c.one(ctx, Amend(account, order, amount, limit))
	switch {
	case err != nil:
		return 0, err
	case r.By != 0:
		return r.By, nil
	}
	return r.Order, nil
}

// CancelAll cancels all open orders of an account, or those of one symbol if symbol is not "", and returns their
// number.
func (c *Client) CancelAll(ctx context.Context, account, symbol string) (orders int, err error) {
	r, err := c.one(ctx, CancelAll(account, symbol))
	if err != nil {
		return 0, err
	}
	return r.Count, nil
}

// CancelAfter sets the account's dead man's switch. See the function CancelAfter.
func (c *Client) CancelAfter(ctx context.Context, account string, after time.Duration) error {
	_, err := c.one(ctx, CancelAfter(account, after))
	return err
}

// Account returns the state of an account. It includes every command that was answered before, on any connection.
func (c *Client) Account(ctx context.Context, account string) (*Account, error) {
	r, err := c.one(ctx, ShowAccount(account))
	if err != nil {
		return nil, err
	}
	return r.Account, nil
}

// Orders returns all open orders of an account, or those of one symbol if symbol is not "", in order of their
// numbers. It requests page after page. Each page shows the orders at its own time, and may be empty before the
// last one.
func (c *Client) Orders(ctx context.Context, account, symbol string) (all []OpenOrder, err error) {
	after := OrderID(0)
	for {
		r, err := c.one(ctx, ListOrders(account, symbol, after))
		if err != nil {
			return nil, err
		}
		if all = append(all, r.Orders...); !r.More {
			return all, nil
		}
		after = OrderID(r.After)
	}
}

// Fills returns up to 1,000 executions of an account whose numbers are above after, oldest first. With Newest it
// returns the last ones.
func (c *Client) Fills(ctx context.Context, account string, after uint64) ([]Fill, error) {
	r, err := c.one(ctx, ListFills(account, after))
	if err != nil {
		return nil, err
	}
	return r.Fills, nil
}
