package binance

import (
	"time"

	"outcry/internal/door/fanout"
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// beginEvent begins an event of a market stream.
func beginEvent(b []byte, name string, at int64, sym exchange.Symbol) []byte {
	b = jsontext.Word(append(b, '{'), "e", name)
	b = jsontext.Number(b, "E", at)
	return jsontext.Word(b, "s", pair(sym))
}

// appendTradeEvent appends a trade as an event of the stream trade or aggTrade.
func appendTradeEvent(b []byte, kind streamKind, sym exchange.Symbol, t *numbered) []byte {
	if kind == aggTradeStream {
		b = beginEvent(b, "aggTrade", millis(t.Time), sym)
		return append(membersOfAggTrade(b, t), '}')
	}
	b = beginEvent(b, "trade", millis(t.Time), sym)
	b = jsontext.Number(b, "t", t.id)
	b = decimal(b, "p", t.Price)
	b = decimal(b, "q", t.Shares)
	b = jsontext.Number(b, "T", millis(t.Time))
	b = jsontext.Bool(b, "m", t.Side() == exchange.Sell)
	b = jsontext.Bool(b, "M", true)
	return append(b, '}')
}

// appendDepthEvent appends the levels that have changed since the previous event. Its first number is one above that
// event's last number. Its last number is the newest record that changed the book. Numbers must continue without a gap
// even if records of other symbols lie between, because readers otherwise conclude that they have missed an event.
func appendDepthEvent(b []byte, sym exchange.Symbol, now time.Time, c *fanout.BookChange) []byte {
	b = beginEvent(b, "depthUpdate", now.UnixMilli(), sym)
	b = jsontext.Number(b, "U", c.Prev+1)
	b = jsontext.Number(b, "u", c.Seq)
	b = appendTotals(jsontext.Name(b, "b"), c.Bids)
	b = appendTotals(jsontext.Name(b, "a"), c.Asks)
	return append(b, '}')
}

// appendTotals appends the new totals of levels.
func appendTotals(b []byte, levels []market.Level) []byte {
	return jsontext.List(b, levels, func(b []byte, l *market.Level) []byte { return appendLevel(b, l.Price, l.Shares) })
}

// appendKlineEvent appends a candle.
func appendKlineEvent(b []byte, sym exchange.Symbol, c *exchange.Candle, i exchange.Interval, closed bool) []byte {
	b = beginEvent(b, "kline", time.Now().UnixMilli(), sym)
	b = append(jsontext.Name(b, "k"), '{')
	b = jsontext.Number(b, "t", millis(c.Start))
	b = jsontext.Number(b, "T", millis(c.Start+i.Length())-1)
	b = jsontext.Word(b, "s", pair(sym))
	b = jsontext.Word(b, "i", i.String())
	first, last := tradesOf(c)
	b = jsontext.Number(b, "f", first)
	b = jsontext.Number(b, "L", last)
	b = decimal(b, "o", c.Open)
	b = decimal(b, "c", c.Close)
	b = decimal(b, "h", c.High)
	b = decimal(b, "l", c.Low)
	b = decimal(b, "v", c.Shares)
	b = jsontext.Number(b, "n", c.Trades)
	b = jsontext.Bool(b, "x", closed)
	b = decimal(b, "q", c.Notional)
	b = decimal(b, "V", c.TakerBought)
	b = decimal(b, "Q", c.TakerPaid)
	b = jsontext.Word(b, "B", "0")
	return append(b, '}', '}')
}

// appendTickerEvent appends the totals of the last 24 hours.
func appendTickerEvent(b []byte, kind streamKind, m *market.Market, now time.Time) []byte {
	c, name := window(m, now), "24hrTicker"
	if kind == miniTickerStream {
		name = "24hrMiniTicker"
	}
	b = beginEvent(b, name, now.UnixMilli(), m.Symbol())
	if kind == tickerStream {
		b = membersOfChange(b, &c, "p", "P", "w")
		b = decimal(b, "x", c.Open)
		b = decimal(b, "Q", lastShares(m))
		b = membersOfBest(b, m, "b", "B", "a", "A")
		b = jsontext.Number(b, "O", now.Add(-day).UnixMilli())
		b = jsontext.Number(b, "C", now.UnixMilli())
		first, last := tradesOf(&c)
		b = jsontext.Number(b, "F", first)
		b = jsontext.Number(b, "L", last)
		b = jsontext.Number(b, "n", c.Trades)
	}
	b = decimal(b, "c", m.Traded().Last)
	b = decimal(b, "o", c.Open)
	b = decimal(b, "h", c.High)
	b = decimal(b, "l", c.Low)
	b = decimal(b, "v", c.Shares)
	b = decimal(b, "q", c.Notional)
	return append(b, '}')
}
