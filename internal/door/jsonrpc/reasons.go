package jsonrpc

import "outcry/internal/exchange"

// Codes of errors. Each code is a class of reasons.
const (
	codeJSON    = -32700 // the message is not JSON, or is JSON that the scanner rejects
	codeRequest = -32600 // the message is not a request
	codeMethod  = -32601 // the method does not exist
	codeParams  = -32602 // the params are wrong, whatever the state of the exchange
	codeState   = 1000   // refused because of the state of the exchange
	codeWho     = 1001   // refused because of who asks
	codeNotNow  = 1002   // temporarily unavailable; nothing was done
)

// codes describes each class of reasons for the reference.
var codes = []struct {
	code    int
	meaning string
}{
	{codeJSON, "not JSON, or JSON in which a name is given twice. Nothing was done, nor will it ever be"},
	{codeRequest, "not a request. Nothing was done, nor will it ever be"},
	{codeMethod, "no such method. Nothing was done, nor will it ever be"},
	{codeParams, "wrong params. Nothing was done, nor will it ever be"},
	{codeState, "refused because of the present state of the exchange; nothing was done and no ref used"},
	{codeWho, "about the token or the account of the request"},
	{codeNotNow, "temporarily unavailable; certainly not done: try again"},
}

// reason is the reason why a request is refused. Programs depend on it, so the names never change.
type reason string

// Reasons of this package. All other reasons are those of exchange.RejectReason.
const (
	invalidJSON          reason = "invalid_json"
	invalidRequest       reason = "invalid_request"
	unknownMethod        reason = "unknown_method"
	missingParam         reason = "missing_param"
	unknownParam         reason = "unknown_param"
	wrongType            reason = "wrong_type"
	invalidValue         reason = "invalid_value"
	conflict             reason = "conflict"
	unknownChannel       reason = "unknown_channel"
	tooManySubscriptions reason = "too_many_subscriptions"
	alreadyReplaced      reason = "already_replaced"
	unauthenticated      reason = "unauthenticated"
	alreadyAuthenticated reason = "already_authenticated"
	notReady             reason = "not_ready"
	busy                 reason = "busy"
)

// ownReasons lists the reasons of this package, each with its code and an example of its text.
var ownReasons = []struct {
	reason
	code    int
	example string
}{
	{invalidJSON, codeJSON, `"amount" is given twice, at byte 71`},
	{invalidRequest, codeRequest, "a request has no method"},
	{unknownMethod, codeMethod, `there is no method "order.new"`},
	{missingParam, codeParams, "order.place has no limit"},
	{unknownParam, codeParams, `order.place has no parameter "color"`},
	{wrongType, codeParams, "amount must be a decimal in a string"},
	{invalidValue, codeParams, `amount "1e3" is not a decimal number`},
	{conflict, codeParams, "order.get names its order twice, by id and by ref"},
	{unknownChannel, codeParams, `there is no channel "books.SPY"`},
	{tooManySubscriptions, codeState, "a connection has at most 1000 subscriptions"},
	{alreadyReplaced, codeState, "order 1 has nothing open: it was replaced by order 9"},
	{unauthenticated, codeWho, textUnauthenticated},
	{alreadyAuthenticated, codeWho, "this connection has presented a token already"},
	{notReady, codeNotNow, "this node is a standby: it accepts no orders, and has no accounts"},
	{busy, codeNotNow, "the exchange is at its limit of concurrent requests of this kind; try again later"},
}

// textUnauthenticated is the text for every client without a valid token, whatever is wrong with the token.
const textUnauthenticated = "this exchange " +
	"needs a valid token: as a bearer in the handshake, or " +
	"by auth"

// coreReason is the code and the reason with which this package reports a reason of the core.
type coreReason struct {
	code int
	reason
}

// reported returns the code and the reason that clients get for a refusal of the core. Reasons that no command of
// this package can cause keep their name.
func reported(r exchange.RejectReason) coreReason {
	name := reason(r.String())
	switch r {
	case exchange.AmountSide:
		return coreReason{codeParams, "wrong_side"}
	case exchange.AmountExecuted:
		return coreReason{codeState, "below_executed"}
	case exchange.NobodyOpposite:
		return coreReason{codeState, "no_opposite"}
	case exchange.OrderTooLarge:
		return coreReason{codeState, "order_shares_exceeded"}
	case exchange.NotionalExceeded:
		return coreReason{codeState, "order_notional_exceeded"}
	case exchange.AccountOrdersExceeded:
		return coreReason{codeState, "open_orders_exceeded"}
	case exchange.FillsForgotten:
		return coreReason{codeState, "not_kept"}
	case exchange.NotAllowed:
		return coreReason{codeWho, name}
	case exchange.TooManyCancelAlls, exchange.RateExceeded:
		return coreReason{codeNotNow, "rate_exceeded"}
	case exchange.NoRoom, exchange.NoRoomToCancel, exchange.DatabaseBehind, exchange.HistoryUnavailable,
		exchange.RefUnavailable, exchange.NoMemory, exchange.NotReadYet, exchange.ViewUnavailable, exchange.Unresumed:
		return coreReason{codeNotNow, name}
	case exchange.OK, exchange.AccountExists, exchange.BalanceTotalExceeded, exchange.UnknownAccount,
		exchange.SymbolLimitExceeded, exchange.PositionTotalExceeded, exchange.UnknownSymbol, exchange.InsufficientFunds,
		exchange.InsufficientShares, exchange.UnknownOrder, exchange.ForeignOrder, exchange.AlreadyExecuted,
		exchange.AlreadyCanceled, exchange.TooManyFills, exchange.RefUsed, exchange.Halted, exchange.TooManyCancels,
		exchange.AccountLimitExceeded, exchange.OpenOrdersExceeded, exchange.OrderTooSmall, exchange.CannotFill,
		exchange.WouldExecute, exchange.OffTick, exchange.OffLot, exchange.OutsideBand, exchange.Blocked,
		exchange.RulesDiffer, exchange.ReplyTooLong:
	}
	return coreReason{codeState, name}
}

// throughXML lists the reasons that only commands of the XML port can get: only it creates accounts and symbols, and
// only it has frames.
var throughXML = []exchange.RejectReason{exchange.AccountExists, exchange.BalanceTotalExceeded,
	exchange.PositionTotalExceeded, exchange.SymbolLimitExceeded, exchange.AccountLimitExceeded, exchange.RulesDiffer,
	exchange.ReplyTooLong}

// fault is an error that becomes the answer to a request.
type fault struct {
	code int
	reason
	text string // one line for people
}

// Error implements error.
func (f *fault) Error() string { return f.text }

// wrong returns a fault with one of ownReasons.
func wrong(r reason, text string) *fault {
	for i := range ownReasons {
		if ownReasons[i].reason == r {
			return &fault{ownReasons[i].code, r, text}
		}
	}
	panic("rpc: " + string(r) + " is not one of ownReasons")
}

// refused returns the fault for a refusal of the core.
func refused(r exchange.RejectReason, text string) *fault {
	as := reported(r)
	return &fault{as.code, as.reason, text}
}

// unseen returns the fault of a request that needs the view of accounts while the view does not work.
func unseen() *fault {
	r := exchange.Result{Reason: exchange.ViewUnavailable}
	return refused(r.Reason, r.Text(nil))
}
