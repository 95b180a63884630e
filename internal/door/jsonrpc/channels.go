package jsonrpc

import (
	"strings"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

const (
	// channelsMax is the maximum number of channels in a request.
	channelsMax = 100

	// subscriptionsMax is the maximum number of subscriptions of a connection.
	subscriptionsMax = 1000

	// entriesMax is the maximum number of entries in the lists of a message together. More entries are sent in several
	// messages, so that none reaches 1 MiB, the limit of some clients.
	entriesMax = 1000
)

// channelKind is a kind of channel.
type channelKind struct {
	form    string // form of the channels' names, for the reference
	doc     string
	data    []field
	private bool                                  // the channel belongs to an account
	sees    sees                                  // the data that its messages are made from
	strict  bool                                  // readers must miss nothing: slow ones are cut
	unit    string                                // for a strict channel: the unit that the reason of a cut counts
	parse   func(c *channel, parts []string) bool // parses the parts of the name after the first
	// open queues all messages for the reader from now on, until stop is called.
	open func(r *reader) (stop func(), err error)
}

// channel is a parsed channel name.
type channel struct {
	name     string
	kind     *channelKind
	sym      exchange.Symbol
	account  exchange.AccountID
	slow     bool // at most one message in 100 ms
	interval exchange.Interval
}

// channelKinds has all kinds, by the first part of the channels' names. init sets it, because the kinds' functions
// refer to it.
var channelKinds map[string]*channelKind

func init() {
	channelKinds = map[string]*channelKind{
		"book": {form: "book.SYM, book.SYM.100ms", parse: parseBook, sees: theMarket, open: (*reader).openBook,
			doc: "price levels, one delta for each record that changed one; with 100ms at most one delta in that time",
			data: join([]field{typeOf(kindSnapshot, kindDelta), prevField,
				has("seq", "whole", "the newest record that changed it"),
				has("bids", "levels", `in a snapshot all, highest first; in a delta new totals, "0" for a level that is gone`),
				has("asks", "levels", "likewise, lowest first"),
				has("checksum", "whole", "of the ten best of each side, after the message"), moreField}, recordTime)},
		"orders": {form: "orders.SYM", parse: parseSymbol, sees: theMarket | accountsToo, open: (*reader).openOrders,
			strict: true, unit: "seq",
			doc: "every resting order, without its owner: one delta for each record that changed some",
			data: join([]field{typeOf(kindSnapshot, kindDelta), prevField,
				has("seq", "whole", "the newest record that changed them"),
				may("bids", "resting", "of a snapshot: in priority"), may("asks", "resting", "likewise"),
				may("changes", "changes", "of a delta: to be applied in order"), moreField}, recordTime)},
		"trades": {form: "trades.SYM", parse: parseSymbol, sees: theMarket, open: (*reader).openTrades,
			strict: true, unit: "id",
			doc: "trades, one delta for each record that has any; ids follow each other without a gap",
			data: []field{typeOf(kindSnapshot, kindDelta), seqField,
				may("last_trade", "whole", "of a snapshot: the id of the newest trade, 0 before the first"),
				may("trades", "trades", "of a delta"), moreField}},
		"ticker": {form: "ticker.SYM", parse: parseSymbol, sees: theMarket, open: (*reader).openTicker,
			doc: "the best prices and totals of trades, when they change, at most once in 100 ms; absent values are left out",
			data: join([]field{typeOf(kindSnapshot), seqField, may("last", "decimal", "price of the newest trade"),
				may("bid", "decimal", "best price"), may("bid_shares", "decimal", "open shares at that price"),
				may("ask", "decimal", "best price"), may("ask_shares", "decimal", "open shares at that price"),
				has("shares", "decimal", "all shares ever traded"), has("notional", "decimal", "dollars paid for them"),
				has("trades", "whole", "how many there were")}, optionalAll(timeFields("time", "of the newest trade")))},
		"candles": {form: "candles.SYM.INTERVAL", parse: parseCandles, sees: theMarket, open: (*reader).openCandles,
			doc: "the newest candle of 1s, 1m, 5m, 1h or 1d, when it changes; before the first trade only seq and closed are " +
				"sent",
			data: []field{typeOf(kindSnapshot), seqField, may("start_ms", "whole", "milliseconds since the Unix epoch"),
				may("open", "decimal", "price"), may("high", "decimal", "price"), may("low", "decimal", "price"),
				may("close", "decimal", "price"), may("shares", "decimal", ""), may("notional", "decimal", ""),
				may("trades", "whole", "how many"), has("closed", "boolean", "true once, after its last change")}},
		"account": {form: "account.ID", parse: parseAccount, sees: accountsToo, open: (*reader).openAccount,
			private: true, strict: true, unit: "n",
			doc: "everything that happens to an account: one event for each record that touches it. A snapshot comes " +
				"first, or, with after, the events after that number if they are kept",
			data: join([]field{typeOf(kindSnapshot, kindEvent),
				has("n", "whole", "counts the account's events 1, 2, 3 without a gap"),
				may("last_fill", "whole", "of a snapshot"), seqField, has("balance", "decimal", "free dollars, after the record"),
				has("held", "decimal", "dollars held by open buys"),
				has("positions", "positions", "of an event: of the symbols that were touched; of a snapshot: all"),
				has("orders", "orders", "of an event: those that were changed; of a snapshot: all that are open"),
				may("fills", "fills", "of an event"), moreField}, recordTime)},
	}
}

// parseChannel parses the name of a channel. ok is false if it is malformed.
func parseChannel(name string) (c channel, ok bool) {
	parts := strings.Split(name, ".")
	if c.kind = channelKinds[parts[0]]; c.kind == nil || len(parts) < 2 {
		return c, false
	}
	c.name = name
	return c, c.kind.parse(&c, parts[1:])
}

func parseSymbol(c *channel, parts []string) bool {
	sym, err := exchange.ParseSymbol(parts[0])
	c.sym = sym
	return err == nil && len(parts) == 1
}

func parseBook(c *channel, parts []string) bool {
	if len(parts) == 2 && parts[1] == "100ms" {
		c.slow, parts = true, parts[:1]
	}
	return parseSymbol(c, parts)
}

func parseCandles(c *channel, parts []string) (ok bool) {
	if len(parts) != 2 {
		return false
	}
	c.interval, ok = exchange.ParseInterval(parts[1])
	return ok && parseSymbol(c, parts[:1])
}

func parseAccount(c *channel, parts []string) bool {
	id, err := exchange.ParseAccountID(parts[0])
	c.account = id
	return err == nil && len(parts) == 1
}

// checkChannels parses the names of channels.
func checkChannels(m *method, a *args) *fault {
	private := 0
	for _, name := range a.names {
		c, ok := parseChannel(name)
		if !ok {
			return wrong(unknownChannel, "there is no channel "+jsontext.Quote(name))
		}
		if c.kind.private {
			private++
		}
		a.channels = append(a.channels, c)
	}
	if a.hasAfter && private != 1 {
		return wrong(conflict, "after is for a request with exactly one account channel")
	}
	return nil
}

// cut selects the entries of one of several messages.
type cut struct{ skip, room int }

// of returns which entries of a list of n are in the message. It is called for each list, in their order.
func (c *cut) of(n int) (from, to int) {
	from = min(c.skip, n)
	c.skip -= from
	to = min(from+c.room, n)
	c.room -= to - from
	return from, to
}

// parts splits a message with many entries. encode appends the message with the entries of a cut; more reports whether
// another one follows.
type parts struct {
	entries, at int
	encode      func(b []byte, c *cut, more bool) []byte
}

// next appends the next message. It returns false after the last one.
func (p *parts) next(b []byte) ([]byte, bool) {
	if p.at > 0 && p.at*entriesMax >= p.entries {
		return b, false
	}
	c := cut{p.at * entriesMax, entriesMax}
	p.at++
	return p.encode(b, &c, p.at*entriesMax < p.entries), true
}

// memberMore appends the member more if another message follows.
func memberMore(b []byte, more bool) []byte {
	if more {
		return jsontext.Bool(b, "more", true)
	}
	return b
}
