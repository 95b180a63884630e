package binance

import (
	"iter"
	"strconv"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// ping answers GET ping.
func (d *Door) ping(*request) (work, *Error) {
	return func() ([]byte, *Error) { return []byte("{}"), nil }, nil
}

// time answers GET time.
func (d *Door) time(*request) (work, *Error) {
	return func() ([]byte, *Error) {
		w := begin(nil)
		w.number("serverTime", time.Now().UnixMilli())
		return w.end(), nil
	}, nil
}

// Default and maximum number of levels of a book.
const (
	depthStandard = 100
	depthMost     = 5000
)

// depth answers GET depth.
func (d *Door) depth(q *request) (work, *Error) {
	sym, problem := q.symbol()
	var limit int64
	if problem == nil {
		limit, problem = q.number("limit", depthStandard, 1, depthMost, true)
	}
	return func() (answer []byte, problem *Error) {
		problem = d.market(q, sym, func(m *market.Market) { answer = appendDepth(nil, m, int(limit)) })
		return answer, problem
	}, problem
}

// appendDepth appends the best levels of a book, for answers and streams.
func appendDepth(b []byte, m *market.Market, limit int) []byte {
	w := begin(b)
	w.number("lastUpdateId", int64(m.BookSeq()))
	w.name("bids")
	w.b = appendLevels(w.b, m.Bids(), limit)
	w.name("asks")
	w.b = appendLevels(w.b, m.Asks(), limit)
	return w.end()
}

// appendLevels appends up to limit levels, best first.
func appendLevels(b []byte, levels iter.Seq2[exchange.Price, exchange.Position], limit int) []byte {
	b = append(b, '[')
	n := 0
	for p, shares := range levels {
		if n == limit {
			break
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = appendLevel(b, p, shares)
	}
	return append(b, ']')
}

// numbered is a trade with its trade number at the symbol.
type numbered struct {
	exchange.Trade
	id uint64
}

// tradesFrom returns trades of a symbol that are in memory: from trade number from on, or the newest if from is 0.
func tradesFrom(m *market.Market, from uint64, limit int64, s span) (trades []numbered) {
	first, last := max(m.FirstTrade(), from), m.LastTrade()
	if s.start > 0 || s.end > 0 {
		for n := first; n <= last && int64(len(trades)) < limit; n++ {
			if t := m.Trade(n); t.Time >= s.start && (s.end == 0 || t.Time <= s.end) {
				trades = append(trades, numbered{t, n})
			}
		}
		return trades
	}
	if from > 0 {
		last = min(last, first+uint64(limit)-1)
	} else if last-first+1 > uint64(limit) {
		first = last - uint64(limit) + 1
	}
	for n := first; n <= last; n++ {
		trades = append(trades, numbered{m.Trade(n), n})
	}
	return trades
}

// trades answers GET trades.
func (d *Door) trades(q *request) (work, *Error) {
	sym, problem := q.symbol()
	var limit int64
	if problem == nil {
		limit, problem = q.number("limit", 500, 1, listMost, true)
	}
	return func() ([]byte, *Error) {
		var trades []numbered
		problem := d.market(q, sym, func(m *market.Market) { trades = tradesFrom(m, 0, limit, span{}) })
		return appendList(nil, trades, appendTrade), problem
	}, problem
}

// appendTrade appends a trade for GET trades.
func appendTrade(b []byte, t *numbered) []byte {
	w := begin(b)
	w.number("id", int64(t.id))
	put(&w, "price", t.Price)
	put(&w, "qty", t.Shares)
	put(&w, "quoteQty", exchange.Notional(t.Shares, t.Price))
	w.number("time", millis(t.Time))
	w.flag("isBuyerMaker", t.Side() == exchange.Sell)
	w.flag("isBestMatch", true)
	return w.end()
}

// aggTrades answers GET aggTrades. Each aggregate is one trade.
func (d *Door) aggTrades(q *request) (work, *Error) {
	sym, problem := q.symbol()
	var s span
	if problem == nil {
		s, problem = q.readSpan(500)
	}
	var from int64
	if problem == nil {
		from, problem = q.number("fromId", 0, 0, wholeMax, true)
	}
	if q.get("fromId") != "" {
		from = max(from, 1)
	}
	return func() ([]byte, *Error) {
		var trades []numbered
		problem := d.market(q, sym, func(m *market.Market) { trades = tradesFrom(m, uint64(from), s.limit, s) })
		return appendList(nil, trades, appendAggTrade), problem
	}, problem
}

// appendAggTrade appends a trade for GET aggTrades.
func appendAggTrade(b []byte, t *numbered) []byte {
	w := begin(b)
	putAggTrade(&w, t)
	return w.end()
}

// putAggTrade writes the members of an aggregate of one trade, for answers and streams.
func putAggTrade(w *object, t *numbered) {
	w.number("a", int64(t.id))
	put(w, "p", t.Price)
	put(w, "q", t.Shares)
	w.number("f", int64(t.id))
	w.number("l", int64(t.id))
	w.number("T", millis(t.Time))
	w.flag("m", t.Side() == exchange.Sell)
	w.flag("M", true)
}

// klines answers GET klines.
func (d *Door) klines(q *request) (work, *Error) {
	sym, problem := q.symbol()
	var name string
	if problem == nil {
		name, problem = q.need("interval")
	}
	interval, known := exchange.ParseInterval(name)
	if problem == nil && !known {
		problem = errInterval
	}
	var s span
	if problem == nil {
		s, problem = q.readSpan(500)
	}
	return func() ([]byte, *Error) {
		feed, problem := d.feed(q)
		if problem != nil {
			return nil, problem
		}
		ask := market.CandlesQuery{Symbol: sym, Interval: interval, From: s.start, Limit: int(s.limit)}
		if s.end > 0 {
			ask.To = s.end + 1 // endTime is inclusive, CandlesQuery.To is not
		}
		candles, _, err := feed.Candles(q.ctx, ask)
		if err != nil {
			return nil, problemOf(err)
		}
		return appendList(nil, candles, func(b []byte, c *exchange.Candle) []byte {
			return appendKline(b, c, interval)
		}), nil
	}, problem
}

// appendKline appends a candle.
func appendKline(b []byte, c *exchange.Candle, i exchange.Interval) []byte {
	b = strconv.AppendInt(append(b, '['), millis(c.Start), 10)
	for _, p := range []exchange.Price{c.Open, c.High, c.Low, c.Close} {
		b = appendQuoted(append(b, ','), p)
	}
	b = appendQuoted(append(b, ','), c.Shares)
	b = strconv.AppendInt(append(b, ','), millis(c.Start+i.Length())-1, 10)
	b = appendQuoted(append(b, ','), c.Notional)
	b = strconv.AppendUint(append(b, ','), c.Trades, 10)
	b = appendQuoted(append(b, ','), c.TakerBought)
	b = appendQuoted(append(b, ','), c.TakerPaid)
	return append(b, `,"0"]`...)
}

// appendQuoted appends a decimal in quotes.
func appendQuoted[D decimal](b []byte, d D) []byte {
	return append(appendDecimal(append(b, '"'), d), '"')
}
