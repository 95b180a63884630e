package exchange

import (
	"errors"
	"fmt"
)

// Trade is one fill as published in market data.
type Trade struct {
	Time      int64 // nanoseconds since the Unix epoch
	Price     Price
	Shares    Shares
	Buy, Sell OrderID // the two orders; the taker has the higher id
}

// Side returns the side of the taker.
func (t *Trade) Side() Side {
	if t.Buy > t.Sell {
		return Buy
	}
	return Sell
}

// Trade returns the trade of e's i-th fill.
func (e *Event) Trade(i int) Trade {
	f := &e.Fills[i]
	t := Trade{Time: e.Time, Price: f.Price, Shares: f.Shares, Buy: e.Order, Sell: f.Resting}
	if e.Side == Sell {
		t.Buy, t.Sell = t.Sell, t.Buy
	}
	return t
}

// Turnover is a sum of the notional of trades. Unlike Cash it cannot overflow with the number
// of trades: the same dollars change hands again and again.
type Turnover struct {
	Rounds uint64 // how often CashTotalMax was reached
	Rest   Cash   // at least 0, below CashTotalMax
}

// Add returns t + c. c must be at least 0 and below CashTotalMax, as the notional of
// any trade is.
func (t Turnover) Add(c Cash) Turnover {
	t.Rest = t.Rest.Add(c)
	if t.Rest.Cmp(CashTotalMax) >= 0 {
		t.Rest = t.Rest.Sub(CashTotalMax)
		t.Rounds++
	}
	return t
}

// Plus returns t + u.
func (t Turnover) Plus(u Turnover) Turnover {
	t = t.Add(u.Rest)
	t.Rounds += u.Rounds
	return t
}

// Minus returns t - u. u must not exceed t.
func (t Turnover) Minus(u Turnover) Turnover {
	t.Rounds -= u.Rounds
	t.Rest = t.Rest.Sub(u.Rest)
	if t.Rest.Sign() < 0 {
		t.Rest = t.Rest.Add(CashTotalMax)
		t.Rounds--
	}
	return t
}

// Append appends t in dollars, in its shortest exact form.
func (t Turnover) Append(dst []byte) []byte {
	if t.Rounds == 0 {
		return t.Rest.Append(dst)
	}
	dst = fmt.Appendf(dst, "%d", t.Rounds)
	// Rest is written with all 21 whole digits: CashTotalMax is added to it, and the leading digit
	// of the sum is removed.
	at := len(dst)
	dst = t.Rest.Add(CashTotalMax).Append(dst)
	return append(dst[:at], dst[at+1:]...)
}

// String returns t in dollars, in its shortest exact form.
func (t Turnover) String() string { return string(t.Append(nil)) }

// Traded is the totals of a symbol's trades, and its last trade.
type Traded struct {
	Trades   uint64
	Shares   Position
	Notional Turnover
	Last     Price // price of the newest trade
	Time     int64 // time of the newest trade, nanoseconds since the Unix epoch
}

// Add adds one trade.
func (d *Traded) Add(t *Trade) {
	d.Trades++
	d.Shares = d.Shares.Add(t.Shares.Position())
	d.Notional = d.Notional.Add(Notional(t.Shares, t.Price))
	d.Last, d.Time = t.Price, t.Time
}

// TradedState is a symbol with the totals of its trades, as a database keeps it.
type TradedState struct {
	Symbol Symbol
	Traded
}

// TradeState is a trade with its symbol, as a database keeps it.
type TradeState struct {
	Symbol Symbol
	Trade
}

// PublicOrder is an order without its owner.
type PublicOrder struct {
	Symbol Symbol
	Terms
	Shares Shares // shares as accepted
	Status Status
}

// Public returns o, an order of sym, without its owner.
func (o *Order) Public(sym Symbol) PublicOrder {
	return PublicOrder{Symbol: sym, Terms: o.Terms, Shares: o.Shares, Status: o.Status()}
}

// name reads a string and returns its bytes.
func (r *eventReader) name() []byte { return r.next(int(r.byte())) }

// errTotals is the error for a stored total that is out of range.
var errTotals = errors.New("exchange: totals of trades are out of range")

// Check returns an error if d cannot be the totals of any trades.
func (d *Traded) Check() error {
	if d.Shares.Sign() < 0 || !inRange(CashTotalMax, d.Notional.Rest) || (d.Trades > 0) != validOrderUnits(int64(d.Last)) {
		return fmt.Errorf("%w: %d trades of %s shares for %s dollars, the last at %s",
			errTotals, d.Trades, d.Shares, d.Notional, d.Last)
	}
	return nil
}
