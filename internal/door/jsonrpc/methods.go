package jsonrpc

import (
	"errors"
	"fmt"

	"outcry/internal/exchange"
)

func init() {
	methods = append(append(connectionMethods(), orderMethods()...), append(readMethods(), channelMethods()...)...)
}

func connectionMethods() []method {
	return []method{
		{name: "ping", access: forAll, answer: (*conn).answerPing, doc: "the exchange's clock",
			result: timeFields("time", "now")},
		{name: "auth", access: forAll, begin: (*conn).beginAuth, answer: (*conn).answerAuth,
			doc: "presents a token, if none was presented in the handshake",
			params: []param{{name: "token", doc: "as outcry token add printed it",
				read: func(a *args, v *value) error { a.token = v.Own(); return nil }}},
			result: []field{
				has("required", "boolean", "whether the exchange requires tokens; if not, the token is ignored"),
				may("scope", "string", "its scope"),
				may("accounts", "strings", "accounts of the token; absent if it is for all")}},
		{name: "session.cancel_on_disconnect", access: forBearers, begin: (*conn).beginOnDisconnect,
			answer: (*conn).answerOnDisconnect,
			doc:    "whether later orders of this connection without cod are canceled when the connection ends",
			params: []param{{name: "on", kind: aBool, doc: "true or false",
				read: func(a *args, v *value) error { a.on = v.Yes; return nil }}},
			result: []field{has("on", "boolean", "as sent")}},
	}
}

func orderMethods() []method {
	return []method{
		{name: "order.place", access: forAccount, doc: "places an order", params: placeParams(),
			result: []field{has("order", "order", "its state right after its record, with all its fills")},
			needs:  needsLimit, check: checkTerms, begin: (*conn).beginPlace, answer: (*conn).answerPlace},
		{name: "order.amend", access: forAccount,
			doc: "changes an order's total, its limit or both; one that only lowers the amount keeps its place",
			params: []param{pAccount, pID, pRef,
				{name: "amount", kind: aDecimal, optional: true, doc: "the new total, executed shares included", read: readAmount},
				{name: "limit", kind: aDecimal, optional: true, doc: "the new limit", read: readLimit},
				{name: "newref", optional: true, doc: "a ref for this amend", read: readNewRef}},
			result: []field{has("id", "whole", "the order that was amended"), may("by", "whole", "the order that replaced it"),
				has("order", "order", "the order that is open now, or its final state")},
			needs: needsChange, check: checkNamed, begin: (*conn).beginAmend, answer: (*conn).answerAmend},
		{name: "order.cancel", access: forAccount, doc: "cancels the open part of an order",
			params: []param{pAccount, pID, pRef}, result: []field{has("order", "order", "with its fills")},
			needs: needsNamed, check: checkNamed, begin: (*conn).beginCancel, answer: (*conn).answerCancel},
		{name: "order.cancel_all", access: forAccount,
			doc:    "cancels all open orders of an account; at most ten times a second",
			params: []param{pAccount, pSymOnly}, result: []field{has("count", "whole", "how many orders were canceled")},
			begin: (*conn).beginCancelAll, answer: (*conn).answerCancelAll},
		{name: "cancel_after", access: forAccount,
			doc:    "a dead man's switch: cancels all open orders after that time, unless called again",
			params: []param{pAccount, {name: "seconds", kind: aWhole, doc: "0 to 86400; 0 turns it off", read: readSeconds}},
			result: []field{has("seconds", "whole", "as sent")}, begin: (*conn).beginSwitch, answer: (*conn).answerSwitch},
	}
}

// placeParams returns the parameters of order.place, in the order in which the XML port reads those of <order>.
func placeParams() []param {
	return []param{pAccount, pSym,
		{name: "amount", kind: aDecimal, doc: "shares; negative sells", read: readAmount},
		{name: "limit", kind: aDecimal, optional: true, doc: "dollars a share; required unless type is sent",
			read: readLimit},
		{name: "type", optional: true, doc: "market",
			read: func(a *args, v *value) (err error) {
				a.Type, err = exchange.ParseOrderType(v.Text)
				return err
			}},
		{name: "tif", optional: true, doc: "GTC, IOC or FOK",
			read: func(a *args, v *value) (err error) {
				a.TIF, err = exchange.ParseTimeInForce(v.Text)
				return err
			}},
		{name: "post", kind: aBool, optional: true, doc: "refused if it would execute at once",
			read: func(a *args, v *value) error { a.Post = v.Yes; return nil }},
		{name: "stp", optional: true, doc: "self-trade prevention: newest, oldest or both",
			read: func(a *args, v *value) (err error) { a.STP, err = exchange.ParseSelfTrade(v.Text); return err }},
		{name: "cod", kind: aBool, optional: true, doc: "canceled when this connection ends",
			read: func(a *args, v *value) error { a.OnDisconnect = v.Yes; return nil }},
		{name: "ref", optional: true, doc: "a name for the order; a request that repeats it gets the first order",
			read: readRef}}
}

func readMethods() []method {
	more := has("more", "boolean", "whether there are more")
	return []method{
		{name: "account.get", access: forAccount, reads: true, answer: (*conn).answerAccount, params: []param{pAccount},
			doc: "the balance and the positions of an account",
			result: []field{has("account", "string", "its id"), has("n", "whole", "the number of its newest event"),
				has("last_fill", "whole", "the number of its newest fill, 0 if it has none"),
				has("balance", "decimal", "free dollars"),
				has("held", "decimal", "dollars held by open buys"), has("positions", "positions", "by sym; empty ones left out")}},
		{name: "order.get", access: forAccount, reads: true, params: []param{pAccount, pID, pRef},
			doc:    "an order of an account, however old; a ref finds the newest order of its chain of amends",
			result: []field{has("order", "order", "with its fills")}, needs: needsNamed, check: checkNamed,
			begin: (*conn).beginOrder, answer: (*conn).answerOrder},
		{name: "orders.open", access: forAccount, reads: true, answer: (*conn).answerOpen,
			doc:    "the open orders of an account: 1,000 by id",
			params: []param{pAccount, pSymOnly, afterThat("above this id")},
			result: []field{has("orders", "orders", "without fills"), more}},
		{name: "fills.list", access: forAccount, reads: true, begin: (*conn).beginFills, answer: (*conn).answerFills,
			doc:    "executions of an account: the newest 1,000, or the next 1,000",
			params: []param{pAccount, afterThat("above this number")},
			result: []field{has("last_fill", "whole", "the number of the newest, 0 if the account has none"),
				has("fills", "fills", "oldest first"), more}},
		{name: "symbols.list", access: forMarket, reads: true, answer: (*conn).answerSymbols,
			doc: "the symbols: 1,000 by name",
			params: []param{{name: "after", optional: true, doc: "after this name",
				read: func(a *args, v *value) (err error) {
					a.afterName, err = exchange.ParseSymbol(v.Own())
					return err
				}}},
			result: []field{has("symbols", "symbols", "by name"), more}},
		{name: "book.get", access: forMarket, reads: true, answer: (*conn).answerBook, doc: "the price levels of a symbol",
			params: []param{pSym, {name: "depth", kind: aWhole, optional: true,
				doc:  "levels of each side, 1 to 1,000 (default 100)",
				read: readDepth}},
			result: []field{has("book_seq", "whole", "the newest record that changed the book"), has("sym", "string", ""),
				has("bids", "levels", "highest first"), has("asks", "levels", "lowest first"),
				has("checksum", "whole", "CRC-32 of the ten best levels of each side")}},
		{name: "trades.list", access: forMarket, reads: true, answer: (*conn).answerTrades,
			doc: "the newest 100 trades of a symbol, or the next 1,000", params: []param{pSym, afterThat("above this id")},
			result: []field{has("sym", "string", ""), has("last_trade", "whole", "the id of the newest, 0 before the first"),
				has("trades", "trades", "oldest first"), more}},
	}
}

func channelMethods() []method {
	channels := param{name: "channels", kind: aList, doc: "1 to 100 names, each once", read: readChannels}
	return []method{
		{name: "subscribe", access: forBearers, reads: true, answer: (*conn).answerSubscribe, check: checkChannels,
			doc: "subscribes to channels; a channel that is subscribed already restarts. If a name is wrong, nothing changes",
			params: []param{channels,
				afterThat("only with exactly one account channel: the number of the last event that the client received")},
			result: []field{has("channels", "strings", "all channels that are on, sorted")}},
		{name: "unsubscribe", access: forBearers, reads: true, answer: (*conn).answerUnsubscribe, check: checkChannels,
			doc: "unsubscribes from channels: none of their messages is sent after the result", params: []param{channels},
			result: []field{has("channels", "strings", "channels that are still on, sorted")}},
	}
}

// needsNamed returns a fault if the request names no order.
func needsNamed(m *method, a *args) *fault {
	if !a.has("id") && !a.has("ref") {
		return wrong(missingParam, m.name+" has neither id nor ref")
	}
	return nil
}

// needsChange returns a fault if the request names no order, or does not change anything in it.
func needsChange(m *method, a *args) *fault {
	if f := needsNamed(m, a); f != nil {
		return f
	}
	if !a.has("amount") && !a.has("limit") {
		return wrong(missingParam, m.name+" has neither an amount nor a limit")
	}
	return nil
}

// needsLimit returns a fault if an order needs a limit and has none.
func needsLimit(m *method, a *args) *fault {
	if !a.has("limit") && !a.has("type") {
		return wrong(missingParam, m.name+" has no limit")
	}
	return nil
}

// checkNamed returns a fault if the request names its order twice.
func checkNamed(m *method, a *args) *fault {
	if a.has("id") && a.has("ref") {
		return wrong(conflict, m.name+" names its order twice, by id and by ref")
	}
	return nil
}

// checkTerms returns a fault if the terms of an order do not go together. A market order without tif becomes IOC.
func checkTerms(_ *method, a *args) *fault {
	market := a.Type == exchange.Market
	if market && !a.has("tif") {
		a.TIF = exchange.IOC
	}
	var err error
	switch {
	case market && a.TIF == exchange.GTC:
		err = errors.New("a market order is IOC or FOK, not GTC")
	case market && a.Post:
		err = errors.New("a market order cannot be a post")
	case a.Post && a.TIF != exchange.GTC:
		err = fmt.Errorf("a post rests, so it cannot be %s", a.TIF)
	}
	if err != nil {
		return wrong(conflict, err.Error())
	}
	return nil
}
