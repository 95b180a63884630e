package wire

import (
	"fmt"

	"outcry/internal/exchange"
)

// rejectText says to people why a command was refused and with which value, in one
// line. It is the only place where a reason becomes text.
func rejectText(c *exchange.Command, r *exchange.Result) string {
	switch r.Reason {
	case exchange.AccountExists:
		return fmt.Sprintf("account %s already exists", c.Account)
	case exchange.BalanceTotalExceeded:
		return fmt.Sprintf("a balance of %s would bring all balances to %s or more", c.Balance, exchange.CashTotalMax)
	case exchange.UnknownAccount:
		return fmt.Sprintf("there is no account %s", c.Account)
	case exchange.SymbolLimitExceeded:
		return fmt.Sprintf("symbol %s cannot be made: the exchange has as many symbols as it takes", c.Symbol)
	case exchange.PositionTotalExceeded:
		return fmt.Sprintf("%s more would bring all shares of %s to %s or more", c.Placed, c.Symbol, exchange.PositionTotalMax)
	case exchange.UnknownSymbol:
		return fmt.Sprintf("there is no symbol %s", c.Symbol)
	case exchange.InsufficientFunds:
		return fmt.Sprintf("insufficient funds: buying %s at %s needs %s, account %s has %s",
			c.Shares, c.Limit, exchange.Notional(c.Shares, c.Limit), c.Account, r.CashHave)
	case exchange.InsufficientShares:
		return fmt.Sprintf("insufficient shares: selling %s of %s, account %s has %s", c.Shares, c.Symbol, c.Account, r.SharesHave)
	case exchange.UnknownOrder:
		return fmt.Sprintf("there is no order %d", c.Order)
	case exchange.ForeignOrder:
		return fmt.Sprintf("order %d does not belong to account %s", c.Order, c.Account)
	case exchange.AlreadyExecuted:
		return fmt.Sprintf("order %d has nothing open: it is executed", c.Order)
	case exchange.AlreadyCanceled:
		return fmt.Sprintf("order %d has nothing open: it was canceled before", c.Order)
	case exchange.NoRoom:
		return "the exchange takes nothing new: its disk has no room for the journal; cancel and query still work"
	case exchange.NoRoomToCancel:
		return fmt.Sprintf("order %d cannot be canceled now: the disk has no room for the journal, and the reserve for cancels is used up; query still works", c.Order)
	case exchange.TooManyFills:
		return fmt.Sprintf("%s %s at %s would execute against more orders than one record of the journal takes; send it in smaller parts", c.Shares, c.Symbol, c.Limit)
	case exchange.DatabaseBehind:
		return "the exchange takes nothing new until its database has caught up; cancel and query still work"
	case exchange.HistoryUnavailable:
		return fmt.Sprintf("order %d was closed long ago, and the database that knows it does not answer now", c.Order)
	}
	return "refused: " + r.Reason.String()
}
