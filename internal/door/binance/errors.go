package binance

import (
	"net/http"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// Error is an error in the form that this door's clients expect. Some decide by Text, some by Code, some by Status.
type Error struct {
	Status int // HTTP status
	Code   int
	Text   string
	data   []byte // more members of the answer, as JSON, or nil
}

const (
	badRequest  = http.StatusBadRequest
	unavailable = http.StatusServiceUnavailable
)

// fail returns an error with a given HTTP status.
func fail(status, code int, text string) *Error {
	return &Error{Status: status, Code: code, Text: text}
}

// bad returns the error of an invalid request.
func bad(code int, text string) *Error { return fail(badRequest, code, text) }

// Error implements error.
func (e *Error) Error() string { return e.Text }

// json returns the error as JSON.
func (e *Error) json() []byte { return e.body(nil) }

// body appends the error as JSON.
func (e *Error) body(b []byte) []byte {
	b = append(b, '{')
	b = jsontext.Number(b, "code", e.Code)
	b = jsontext.Text(b, "msg", e.Text)
	if e.data != nil {
		b = jsontext.Raw(b, "data", e.data)
	}
	return append(b, '}')
}

// Errors that are used in several places.
var (
	errNoKey         = fail(http.StatusUnauthorized, -2014, "API-key format invalid.")
	errUnknownKey    = fail(http.StatusUnauthorized, -2015, "Invalid API-key, IP, or permissions for action.")
	errSignature     = bad(-1022, "Signature for this request is not valid.")
	errTooOld        = bad(-1021, "Timestamp for this request is outside of the recvWindow.")
	errTooNew        = bad(-1021, "Timestamp for this request was 1000ms ahead of the server's time.")
	errWindow        = bad(-1131, "recvWindow must be less than 60000.")
	errSymbol        = bad(-1121, "Invalid symbol.")
	errInterval      = bad(-1120, "Invalid interval.")
	errSide          = bad(-1117, "Invalid side.")
	errOrderType     = bad(-1116, "Invalid orderType.")
	errTimeInForce   = bad(-1115, "Invalid timeInForce.")
	errCancelUnknown = bad(-2011, "Unknown order sent.")
	errNoOrder       = bad(-2013, "Order does not exist.")
	errReplaceFailed = bad(-2022, "Order cancel-replace failed.")
	errReplacePartly = fail(http.StatusConflict, -2021, "Order cancel-replace partially failed.")
	errRate          = fail(http.StatusTooManyRequests, -1003, "Too many requests; try again in a second.")
	errListenKey     = fail(http.StatusGone, -1000,
		"There are no listen keys: subscribe by userDataStream.subscribe.signature.")
	// errNow means that nothing was executed, and that the client may retry.
	errNow = fail(unavailable, -1000, "System is under maintenance.")
	// errUnknown means that it is unknown whether the command was executed.
	errUnknown = fail(unavailable, -1007,
		"Timeout waiting for response from backend server. Send status unknown; execution status unknown.")
)

// illegal is the error of a parameter that does not match the pattern legal.
func illegal(name, legal string) *Error {
	return bad(-1100, "Illegal characters found in parameter '"+name+"'; legal range is '"+legal+"'.")
}

// missing is the error of an absent required parameter.
func missing(name string) *Error {
	return bad(-1102, "Mandatory parameter '"+name+"' was not sent, was empty/null, or malformed.")
}

// notBoth is the error if both of two parameters are absent and one is required.
func notBoth(a, b string) *Error {
	return bad(-1102, "Param '"+a+"' or '"+b+"' must be sent, but both were empty/null!")
}

// unneeded is the error of a parameter that is not allowed in this request.
func unneeded(name string) *Error {
	return bad(-1106, "Parameter '"+name+"' sent when not required.")
}

// notValid is the error of a parameter with an unknown value.
func notValid(name string) *Error {
	return bad(-1130, "Data sent for parameter '"+name+"' is not valid.")
}

// refusals maps the exchange's reject reasons to errors. A reason that is not here becomes code -2010 with the
// exchange's own text.
var refusals = map[exchange.RejectReason]*Error{
	exchange.InsufficientFunds:  bad(-2010, "Account has insufficient balance for requested action."),
	exchange.InsufficientShares: bad(-2010, "Account has insufficient balance for requested action."),
	exchange.WouldExecute:       bad(-2010, "Order would immediately match and take."),
	exchange.RefUsed:            bad(-2010, "Duplicate order sent."),
	exchange.Halted:             bad(-2010, "Market is closed."),
	exchange.Blocked:            bad(-2010, "This account may not place or cancel orders."),

	exchange.OffTick:               bad(-1013, "Filter failure: PRICE_FILTER"),
	exchange.OffLot:                bad(-1013, "Filter failure: LOT_SIZE"),
	exchange.OutsideBand:           bad(-1013, "Filter failure: PERCENT_PRICE_BY_SIDE"),
	exchange.OrderTooLarge:         bad(-1013, "Filter failure: MAX_POSITION"),
	exchange.NotionalExceeded:      bad(-1013, "Filter failure: NOTIONAL"),
	exchange.OrderTooSmall:         bad(-1013, "Filter failure: NOTIONAL"),
	exchange.AccountOrdersExceeded: bad(-1013, "Filter failure: MAX_NUM_ORDERS"),
	exchange.OpenOrdersExceeded:    bad(-1013, "Filter failure: MAX_NUM_ORDERS"),

	exchange.UnknownSymbol:   errSymbol,
	exchange.UnknownAccount:  errUnknownKey,
	exchange.NotAllowed:      errUnknownKey,
	exchange.UnknownOrder:    errCancelUnknown,
	exchange.ForeignOrder:    errCancelUnknown,
	exchange.AlreadyExecuted: errCancelUnknown,
	exchange.AlreadyCanceled: errCancelUnknown,

	exchange.RateExceeded:      errRate,
	exchange.TooManyCancelAlls: errRate,

	exchange.NoRoom:             errNow,
	exchange.NoRoomToCancel:     errNow,
	exchange.DatabaseBehind:     errNow,
	exchange.HistoryUnavailable: errNow,
	exchange.RefUnavailable:     errNow,
	exchange.ViewUnavailable:    errNow,
	exchange.NotReadYet:         errNow,
	exchange.Unresumed:          errNow,
	exchange.NoMemory:           errNow,
	exchange.ReplyTooLong:       errNow,
}

// refusal returns the error for a rejected command. text is the exchange's own text for the reason.
func refusal(reason exchange.RejectReason, text string) *Error {
	if e := refusals[reason]; e != nil {
		return e
	}
	return bad(-2010, text)
}

// documentedErrors lists the errors that are no reject reasons, and when they occur, for the reference.
var documentedErrors = []struct {
	*Error
	when string
}{
	{errNoKey, "the key is absent or malformed"},
	{errUnknownKey, "there is no such key, it was revoked or has expired, or there is no such account"},
	{errSignature, "the signature is not the key's"},
	{errTooOld, "the timestamp is older than recvWindow, perhaps after a wait"},
	{errTooNew, "the timestamp is more than a second ahead"},
	{errWindow, "recvWindow is too large"},
	{illegal("quantity", legalDecimal), "not a decimal; likewise client ids and whole numbers"},
	{bad(-1101, "Duplicate values for a parameter detected."), "a parameter is given twice"},
	{missing("symbol"), "a parameter is absent"},
	{notBoth("origClientOrderId", "orderId"), "both are absent"},
	{unneeded("timeInForce"), "one too many: timeInForce with MARKET or LIMIT_MAKER, price with " +
		"MARKET, and what is not offered"},
	{bad(-1111, "Parameter 'price' has too much precision."), "more than eight digits after the point"},
	{errTimeInForce, ""},
	{errOrderType, ""},
	{errSide, ""},
	{errInterval, ""},
	{errSymbol, ""},
	{notValid("newOrderRespType"), "none of its values; likewise other parameters"},
	{bad(-1013, "Invalid quantity."), "0, or out of range; likewise the price"},
	{errCancelUnknown, "the order to cancel is not open, or not the account's"},
	{errNoOrder, "the account has no such order at the symbol"},
	{errReplaceFailed, "data says what became of both halves: the old order stands, unless it was not open"},
	{errReplacePartly, "data says what became of both halves"},
	{errRate, "more than an account or an address may send"},
	{errListenKey, "POST, PUT or DELETE of userDataStream"},
	{errNow, "certainly not done; try again"},
	{errUnknown, "try again with the same client id, which is done once"},
}
