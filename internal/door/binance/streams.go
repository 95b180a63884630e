package binance

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"outcry/internal/exchange"
)

// streamKind is one kind of market stream.
type streamKind uint8

const (
	tradeStream streamKind = iota
	aggTradeStream
	bookTickerStream
	depthStream   // changed levels
	partialStream // the best levels
	klineStream
	miniTickerStream
	tickerStream
)

// streamName is a parsed stream name.
type streamName struct {
	text     string // the name as the client wrote it
	symbol   exchange.Symbol
	kind     streamKind
	every    time.Duration     // minimum time between two events; 0 means that each is sent at once
	levels   int               // number of levels, for a partialStream
	interval exchange.Interval // interval of the candles, for a klineStream
}

// streamForms lists the forms of stream names, for the reference.
var streamForms = []struct {
	examples []string
	about    string
}{
	{[]string{"spyusd@trade"}, "each trade"},
	{[]string{"spyusd@aggTrade"}, "each trade, as an aggregate of one"},
	{[]string{"spyusd@depth", "spyusd@depth@100ms"}, "the new totals of levels that changed, every 1,000 or 100 ms"},
	{[]string{"spyusd@depth5", "spyusd@depth10@100ms", "spyusd@depth20@100ms"},
		"the best 5, 10 or 20 levels, if they changed"},
	{[]string{"spyusd@bookTicker"}, "the best levels, as soon as they change"},
	{[]string{"spyusd@kline_1s", "spyusd@kline_1m", "spyusd@kline_5m", "spyusd@kline_1h", "spyusd@kline_1d"},
		"the newest candle, when it changes and when it is closed"},
	{[]string{"spyusd@miniTicker", "spyusd@ticker"}, "totals of the last 24 hours, once a second if they changed"},
}

// Times between two events of a stream.
const (
	tickTime  = 100 * time.Millisecond
	slowTime  = time.Second
	klineTime = 250 * time.Millisecond
)

// parseStream parses a stream name such as spyusd@depth@100ms. ok is false if it is malformed.
func parseStream(text string) (n streamName, ok bool) {
	name, what, _ := strings.Cut(text, "@")
	// Some letters outside ASCII have an ASCII letter as their capital. Without this check, a stream would have several
	// names.
	if name != strings.ToLower(name) || strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return n, false
	}
	n.text = text
	if n.symbol, ok = symbolOf(strings.ToUpper(name)); !ok {
		return n, false
	}
	switch what {
	case "trade":
		n.kind = tradeStream
	case "aggTrade":
		n.kind = aggTradeStream
	case "bookTicker":
		n.kind = bookTickerStream
	case "miniTicker":
		n.kind, n.every = miniTickerStream, slowTime
	case "ticker":
		n.kind, n.every = tickerStream, slowTime
	default:
		return n, n.parseMore(what)
	}
	return n, true
}

// parseMore parses the part of a stream name after the symbol, if that part has an argument.
func (n *streamName) parseMore(what string) (ok bool) {
	if interval, isKline := strings.CutPrefix(what, "kline_"); isKline {
		n.kind, n.every = klineStream, klineTime
		n.interval, ok = exchange.ParseInterval(interval)
		return ok
	}
	depth, pace, _ := strings.Cut(what, "@")
	levels, ok := strings.CutPrefix(depth, "depth")
	if !ok || pace == "" && what != depth {
		return false
	}
	switch pace {
	case "", "1000ms":
		n.every = slowTime
	case "100ms":
		n.every = tickTime
	default:
		return false
	}
	if n.kind = depthStream; levels != "" {
		n.kind = partialStream
		n.levels, _ = strconv.Atoi(levels)
		return levels == "5" || levels == "10" || levels == "20"
	}
	return true
}
