package wire

import (
	"strconv"

	"outcry/internal/exchange"
)

// rejectText says to people why a command was refused and with which value, in one
// line. It is the only place where a reason becomes text.
func rejectText(c *exchange.Command, r *exchange.Result) string {
	order, account, symbol, ref := strconv.FormatUint(uint64(c.Names(r)), 10), string(c.Account), string(c.Symbol), string(c.Ref)
	switch r.Reason {
	case exchange.AccountExists:
		return "account " + account + " already exists"
	case exchange.BalanceTotalExceeded:
		return "a balance of " + c.Balance.String() + " would bring all balances to " + exchange.CashTotalMax.String() + " or more"
	case exchange.UnknownAccount:
		return "there is no account " + account
	case exchange.SymbolLimitExceeded:
		return "symbol " + symbol + " cannot be made: the exchange has as many symbols as it takes"
	case exchange.PositionTotalExceeded:
		return c.Placed.String() + " more would bring all shares of " + symbol + " to " + exchange.PositionTotalMax.String() + " or more"
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
	case exchange.HistoryUnavailable:
		return "order " + order + " was closed long ago, and the database that knows it does not answer now"
	case exchange.RefUsed:
		return "account " + account + " has used ref " + ref + " before, and not for this"
	case exchange.RefUnavailable:
		return "what ref " + ref + " was used for is in the database, which does not answer now; nothing was done, try again later"
	}
	return "refused: " + r.Reason.String()
}
