package binance

import (
	"encoding/json"
	"math/big"
	"time"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// day is the length of the 24-hour tickers. They count whole hours, because hourly candles are kept.
const day = 24 * time.Hour

// window returns the totals of the trades of the last 24 hours.
func window(m *market.Market, now time.Time) exchange.Candle {
	return m.Window(now.Add(-day).UnixNano())
}

// ticker24 answers GET ticker/24hr.
func (d *Door) ticker24(q *request) (work, *Error) {
	return d.each(q, func(b []byte, m *market.Market) []byte { return appendTicker24(b, m, q.arrived) })
}

// tickerPrice answers GET ticker/price.
func (d *Door) tickerPrice(q *request) (work, *Error) {
	return d.each(q, func(b []byte, m *market.Market) []byte {
		b = append(b, '{')
		b = jsontext.Word(b, "symbol", pair(m.Symbol()))
		b = decimal(b, "price", m.Traded().Last)
		return append(b, '}')
	})
}

// bookTicker answers GET ticker/bookTicker.
func (d *Door) bookTicker(q *request) (work, *Error) {
	return d.each(q, func(b []byte, m *market.Market) []byte {
		b = append(b, '{')
		b = jsontext.Word(b, "symbol", pair(m.Symbol()))
		b = membersOfBest(b, m, "bidPrice", "bidQty", "askPrice", "askQty")
		return append(b, '}')
	})
}

// membersOfBest appends the best level of each side, or zeros for an empty side.
func membersOfBest(b []byte, m *market.Market, bid, bidQty, ask, askQty string) []byte {
	best, _ := m.Best(exchange.Buy)
	b = decimal(b, bid, best.Price)
	b = decimal(b, bidQty, best.Shares)
	best, _ = m.Best(exchange.Sell)
	b = decimal(b, ask, best.Price)
	return decimal(b, askQty, best.Shares)
}

// appendTicker24 appends the totals of the last 24 hours.
func appendTicker24(b []byte, m *market.Market, now time.Time) []byte {
	c, traded := window(m, now), m.Traded()
	b = append(b, '{')
	b = jsontext.Word(b, "symbol", pair(m.Symbol()))
	b = membersOfChange(b, &c, "priceChange", "priceChangePercent", "weightedAvgPrice")
	b = decimal(b, "prevClosePrice", c.Open)
	b = decimal(b, "lastPrice", traded.Last)
	b = decimal(b, "lastQty", lastShares(m))
	b = membersOfBest(b, m, "bidPrice", "bidQty", "askPrice", "askQty")
	b = decimal(b, "openPrice", c.Open)
	b = decimal(b, "highPrice", c.High)
	b = decimal(b, "lowPrice", c.Low)
	b = decimal(b, "volume", c.Shares)
	b = decimal(b, "quoteVolume", c.Notional)
	b = jsontext.Number(b, "openTime", now.Add(-day).UnixMilli())
	b = jsontext.Number(b, "closeTime", now.UnixMilli())
	first, last := tradesOf(&c)
	b = jsontext.Number(b, "firstId", first)
	b = jsontext.Number(b, "lastId", last)
	b = jsontext.Number(b, "count", c.Trades)
	return append(b, '}')
}

// tradesOf returns the numbers of the first and last trade of a candle, -1 if it has no trades.
func tradesOf(c *exchange.Candle) (first, last int64) {
	if c.Trades == 0 {
		return -1, -1
	}
	return int64(c.First), int64(c.First + c.Trades - 1)
}

// lastShares returns the shares of the newest trade, 0 if it is not in memory.
func lastShares(m *market.Market) exchange.Shares {
	if n := m.LastTrade(); n > 0 && n >= m.FirstTrade() {
		t := m.Trade(n)
		return t.Shares
	}
	return 0
}

// membersOfChange appends the change of a price, in money and in percent, and the mean price. Percentage and mean are
// rounded, for display only.
func membersOfChange(b []byte, c *exchange.Candle, change, percent, mean string) []byte {
	b = decimal(b, change, c.Close-c.Open)
	b = jsontext.Word(b, percent, percentOf(c.Close-c.Open, c.Open))
	return jsontext.Word(b, mean, meanPrice(c))
}

// percentOf returns change as a percentage of another price, with three digits after the point.
func percentOf(change, of exchange.Price) string {
	if of == 0 {
		return "0.000"
	}
	r := big.NewRat(int64(change), int64(of))
	return r.Mul(r, big.NewRat(100, 1)).FloatString(3)
}

// meanPrice returns the mean price of a candle's trades, rounded.
func meanPrice(c *exchange.Candle) string {
	paid, ok := new(big.Rat).SetString(c.Notional.String())
	shares, fine := new(big.Rat).SetString(c.Shares.String())
	if !ok || !fine || shares.Sign() == 0 {
		return zero
	}
	return paid.Quo(paid, shares).FloatString(fractionDigits)
}

// each answers a request with the output of write for its one symbol, or else with a list of the outputs for each of
// its symbols, or for all symbols if it names none.
func (d *Door) each(q *request, write func(b []byte, m *market.Market) []byte) (work, *Error) {
	syms, one, problem := q.symbols()
	return func() ([]byte, *Error) {
		if one {
			var answer []byte
			problem := d.market(q, syms[0], func(m *market.Market) { answer = write(nil, m) })
			return answer, problem
		}
		b, problem := d.list(q, syms, write)
		return b, problem
	}, problem
}

// symbols parses the parameters symbol and symbols, of which at most one is allowed. one reports whether symbol was
// used.
func (q *request) symbols() (syms []exchange.Symbol, one bool, problem *Error) {
	list := q.get("symbols")
	switch {
	case q.get("symbol") != "" && list != "":
		return nil, false, bad(-1128, "Combination of optional parameters invalid.")
	case q.get("symbol") != "":
		sym, problem := q.symbol()
		return []exchange.Symbol{sym}, true, problem
	case list == "":
		return nil, false, nil
	}
	var names []string
	if json.Unmarshal([]byte(list), &names) != nil || len(names) == 0 {
		return nil, false, illegal("symbols", `^\["[A-Z0-9-_.]{1,20}"(,"[A-Z0-9-_.]{1,20}"){0,}\]$`)
	}
	seen := make(map[exchange.Symbol]struct{}, len(names))
	for _, name := range names {
		sym, ok := symbolOf(name)
		if !ok {
			return nil, false, errSymbol
		}
		if _, twice := seen[sym]; twice {
			return nil, false, bad(-1151, "Symbol is present multiple times in the list.")
		}
		seen[sym] = struct{}{}
		syms = append(syms, sym)
	}
	return syms, false, nil
}

// list appends a list of the outputs of write for each symbol in syms, or for all symbols if syms is nil.
func (d *Door) list(q *request, syms []exchange.Symbol, write func(b []byte, m *market.Market) []byte) ([]byte,
	*Error) {
	feed, problem := d.feed(q)
	if problem != nil {
		return nil, problem
	}
	b := []byte{'['}
	add := func(m *market.Market) {
		if !offered(m.Symbol()) {
			return
		}
		b = write(jsontext.Next(b), m)
	}
	for _, sym := range syms {
		if problem := problemOf(feed.View(sym, add)); problem != nil {
			return nil, problem
		}
	}
	if syms != nil {
		return append(b, ']'), nil
	}
	select {
	case d.large <- struct{}{}:
		defer func() { <-d.large }()
	case <-q.ctx.Done():
		return nil, errNow
	}
	// Read page by page, so that the feed's lock is never held for long.
	for after, more := exchange.Symbol(""), true; more; {
		left := symbolsPage
		more = false
		err := feed.Each(after, func(m *market.Market) bool {
			if left == 0 {
				more = true
				return false
			}
			left, after = left-1, m.Symbol()
			add(m)
			return true
		})
		if err != nil {
			return nil, errNow
		}
	}
	return append(b, ']'), nil
}

// symbolsPage is the number of symbols read at a time.
const symbolsPage = 256
