package wire

import (
	"fmt"
	"strconv"

	"outcry/internal/exchange"
)

// rejectText says to people why a command was refused and with which value, in one
// line. It is the only place where a reason becomes text.
func rejectText(c *exchange.Command, r *exchange.Result) string {
	order, account, symbol, ref := strconv.FormatUint(uint64(c.Names(r)), 10), string(c.Account), string(c.Symbol), string(c.Ref)
	switch r.Reason {
	case exchange.OK:
		panic("wire: a command that was done has no reason")
	case exchange.AccountExists:
		return "account " + account + " already exists"
	case exchange.BalanceTotalExceeded:
		return "a balance of " + c.Balance.String() + " would bring all balances to " + exchange.CashTotalMax.String() + " or more"
	case exchange.UnknownAccount:
		return "there is no account " + account
	case exchange.SymbolLimitExceeded:
		return "symbol " + symbol + " cannot be made: the exchange has as many symbols as it takes" + bound(r, "max-symbols")
	case exchange.AccountLimitExceeded:
		return "account " + account + " cannot be made: the exchange has as many accounts as it takes" + bound(r, "max-accounts")
	case exchange.AccountOrdersExceeded:
		return "account " + account + " has as many orders open as it may" + bound(r, "max-open-orders-account") + "; cancel and query still work"
	case exchange.OpenOrdersExceeded:
		return "the exchange has as many orders open as it takes" + bound(r, "max-open-orders") + "; cancel and query still work"
	case exchange.OrderTooSmall:
		return c.Shares.String() + " " + symbol + " at " + c.Limit.String() + " is worth " + exchange.Notional(c.Shares, c.Limit).String() +
			", and an order has to be worth " + r.ValueLeast.String() + " (--min-order-value)"
	case exchange.PositionTotalExceeded:
		return c.Deposited.String() + " more would bring all shares of " + symbol + " to " + exchange.PositionTotalMax.String() + " or more"
	case exchange.UnknownSymbol:
		return "there is no symbol " + symbol
	case exchange.InsufficientFunds:
		return "insufficient funds: buying " + c.Shares.String() + " at " + c.Limit.String() + " needs " +
			exchange.Notional(c.Shares, c.Limit).String() + ", account " + account + " has " + r.CashHave.String()
	case exchange.InsufficientShares:
		return "insufficient shares: selling " + c.Shares.String() + " of " + symbol + ", account " + account + " has " + r.SharesHave.String()
	case exchange.UnknownOrder:
		if ref != "" {
			return "account " + account + " has no order of ref " + ref
		}
		return "there is no order " + order
	case exchange.ForeignOrder:
		return "order " + order + " does not belong to account " + account
	case exchange.AlreadyExecuted:
		return "order " + order + " has nothing open: it is executed"
	case exchange.AlreadyCanceled:
		return "order " + order + " has nothing open: it was canceled before"
	case exchange.NoRoom:
		return "the exchange takes nothing new: its disk has no room for the journal; cancel and query still work"
	case exchange.NoRoomToCancel:
		return "order " + order + " cannot be canceled now: the disk has no room for the journal, and the reserve for cancels is used up; query still works"
	case exchange.TooManyFills:
		return c.Shares.String() + " " + symbol + " at " + c.Limit.String() + " would execute against more orders than one record of the journal takes; send it in smaller parts"
	case exchange.DatabaseBehind:
		return "the exchange takes nothing new until its database has caught up; cancel and query still work"
	case exchange.RateExceeded:
		return "account " + account + " is over its limit of orders and creates a second; try again later"
	case exchange.TooManyCancels:
		return "account " + account + " has more open than one record of the journal takes"
	case exchange.Halted:
		return haltText(c.Symbol, r.Halt)
	case exchange.HistoryUnavailable, exchange.InHistory:
		return "order " + order + " was closed long ago, and the database that knows it does not answer now"
	case exchange.RefUsed:
		return "account " + account + " has used ref " + ref + " before, and not for this"
	case exchange.RefUnavailable:
		return "what ref " + ref + " was used for is in the database, which does not answer now; nothing was done, try again later"
	}
	return "refused: " + r.Reason.String()
}

// bound names the bound that a command has run into, and the server's flag for it.
func bound(r *exchange.Result, flag string) string {
	return ", " + strconv.FormatInt(r.Most, 10) + " (--" + flag + ")"
}

// haltText says that a symbol takes no orders, since when, and why.
func haltText(sym exchange.Symbol, h *exchange.Halt) string {
	text := "symbol " + string(sym) + " is halted since " + utc(exchange.Seconds(h.Since)) + " and takes no orders; cancel and query work"
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}

// utc shows a time, seconds since the Unix epoch, as RFC 3339 does, in UTC. Package
// time is not for the core; this is its calendar from the year 0 on, in which a year
// begins with March, so that a leap day is its last.
func utc(seconds int64) string {
	const day, days400 = 86400, 146097              // seconds of a day, days of 400 years
	days, second := seconds/day+719468, seconds%day // since 0000-03-01
	if second < 0 {
		days, second = days-1, second+day
	}
	century400, of400 := days/days400, days%days400
	year := (of400 - of400/1460 + of400/36524 - of400/146096) / 365
	of := of400 - (365*year + year/4 - year/100)
	month := (5*of + 2) / 153
	date := of - (153*month+2)/5 + 1
	if month += 3; month > 12 {
		month, year = month-12, year+1
	}
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02dZ", 400*century400+year, month, date, second/3600, second/60%60, second%60)
}
