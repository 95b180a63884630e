package audit

import (
	"strings"

	"outcry/internal/exchange"
)

// partOfText has, for each reason that the audit expects, a part of its text that no other reason's text has. An
// XML answer names no reason, only a text for people.
var partOfText = map[exchange.RejectReason]string{
	exchange.UnknownOrder:       "there is no order",
	exchange.InsufficientFunds:  "insufficient funds",
	exchange.InsufficientShares: "insufficient shares",
	exchange.AlreadyExecuted:    "has nothing open: it is executed",
	exchange.AlreadyCanceled:    "has nothing open: it was canceled",
	exchange.NoRoom:             "its disk has no room",
	exchange.HistoryUnavailable: "the database that knows it does not answer now",
	exchange.RefUsed:            "has used ref",
	exchange.RefUnavailable:     "was used for is in the database, which does not answer now",
	exchange.CannotFill:         "cannot be filled at once",
	exchange.NobodyOpposite:     " orders for ",
	exchange.WouldExecute:       "would execute at once",
	exchange.AmountExecuted:     "has executed",
	exchange.TooManyCancelAlls:  "exceeds its limit of ten cancel-alls per second",
}

// rejectedFor reports whether text, that of an error, is the text of one of the reasons, which must be in partOfText.
func rejectedFor(text string, reasons ...exchange.RejectReason) bool {
	for _, r := range reasons {
		if part := partOfText[r]; part != "" && strings.Contains(text, part) {
			return true
		}
	}
	return false
}
