package binance

import (
	"strconv"
	"time"

	"outcry/internal/door/jsontext"
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
		return append(jsontext.Number([]byte{'{'}, "serverTime", time.Now().UnixMilli()), '}'), nil
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
	b = jsontext.Number(append(b, '{'), "lastUpdateId", m.BookSeq())
	b = jsontext.Levels(jsontext.Name(b, "bids"), m.Bids(), limit, appendLevel)
	b = jsontext.Levels(jsontext.Name(b, "asks"), m.Asks(), limit, appendLevel)
	return append(b, '}')
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
		return jsontext.List(nil, trades, appendTrade), problem
	}, problem
}

// appendTrade appends a trade for GET trades.
func appendTrade(b []byte, t *numbered) []byte {
	b = append(b, '{')
	b = jsontext.Number(b, "id", t.id)
	b = decimal(b, "price", t.Price)
	b = decimal(b, "qty", t.Shares)
	b = decimal(b, "quoteQty", exchange.Notional(t.Shares, t.Price))
	b = jsontext.Number(b, "time", millis(t.Time))
	b = jsontext.Bool(b, "isBuyerMaker", t.Side() == exchange.Sell)
	b = jsontext.Bool(b, "isBestMatch", true)
	return append(b, '}')
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
		return jsontext.List(nil, trades, appendAggTrade), problem
	}, problem
}

// appendAggTrade appends a trade for GET aggTrades.
func appendAggTrade(b []byte, t *numbered) []byte {
	return append(membersOfAggTrade(append(b, '{'), t), '}')
}

// membersOfAggTrade appends the members of an aggregate of one trade, for answers and streams.
func membersOfAggTrade(b []byte, t *numbered) []byte {
	b = jsontext.Number(b, "a", t.id)
	b = decimal(b, "p", t.Price)
	b = decimal(b, "q", t.Shares)
	b = jsontext.Number(b, "f", t.id)
	b = jsontext.Number(b, "l", t.id)
	b = jsontext.Number(b, "T", millis(t.Time))
	b = jsontext.Bool(b, "m", t.Side() == exchange.Sell)
	return jsontext.Bool(b, "M", true)
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
		return jsontext.List(nil, candles, func(b []byte, c *exchange.Candle) []byte {
			return appendKline(b, c, interval)
		}), nil
	}, problem
}

// appendKline appends a candle.
func appendKline(b []byte, c *exchange.Candle, i exchange.Interval) []byte {
	b = strconv.AppendInt(append(b, '['), millis(c.Start), 10)
	for _, p := range []exchange.Price{c.Open, c.High, c.Low, c.Close} {
		b = appendDecimal(append(b, ','), p)
	}
	b = appendDecimal(append(b, ','), c.Shares)
	b = strconv.AppendInt(append(b, ','), millis(c.Start+i.Length())-1, 10)
	b = appendDecimal(append(b, ','), c.Notional)
	b = strconv.AppendUint(append(b, ','), c.Trades, 10)
	b = appendDecimal(append(b, ','), c.TakerBought)
	b = appendDecimal(append(b, ','), c.TakerPaid)
	return append(b, `,"0"]`...)
}
