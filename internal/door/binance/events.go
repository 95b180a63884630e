package binance

import (
	"time"

	"outcry/internal/door/fanout"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// beginEvent begins an event of a market stream.
func beginEvent(b []byte, name string, at int64, sym exchange.Symbol) object {
	w := begin(b)
	w.word("e", name)
	w.number("E", at)
	w.word("s", pair(sym))
	return w
}

// appendTradeEvent appends a trade as an event of the stream trade or aggTrade.
func appendTradeEvent(b []byte, kind streamKind, sym exchange.Symbol, t *numbered) []byte {
	if kind == aggTradeStream {
		w := beginEvent(b, "aggTrade", millis(t.Time), sym)
		putAggTrade(&w, t)
		return w.end()
	}
	w := beginEvent(b, "trade", millis(t.Time), sym)
	w.number("t", int64(t.id))
	put(&w, "p", t.Price)
	put(&w, "q", t.Shares)
	w.number("T", millis(t.Time))
	w.flag("m", t.Side() == exchange.Sell)
	w.flag("M", true)
	return w.end()
}

// appendDepthEvent appends the levels that have changed since the previous event. Its first number is one above that
// event's last number. Its last number is the newest record that changed the book. Numbers must continue without a gap
// even if records of other symbols lie between, because readers otherwise conclude that they have missed an event.
func appendDepthEvent(b []byte, sym exchange.Symbol, now time.Time, c *fanout.BookChange) []byte {
	w := beginEvent(b, "depthUpdate", now.UnixMilli(), sym)
	w.number("U", int64(c.Prev+1))
	w.number("u", int64(c.Seq))
	w.name("b")
	w.b = appendTotals(w.b, c.Bids)
	w.name("a")
	w.b = appendTotals(w.b, c.Asks)
	return w.end()
}

// appendTotals appends the new totals of levels.
func appendTotals(b []byte, levels []market.Level) []byte {
	return appendList(b, levels, func(b []byte, l *market.Level) []byte { return appendLevel(b, l.Price, l.Shares) })
}

// appendKlineEvent appends a candle.
func appendKlineEvent(b []byte, sym exchange.Symbol, c *exchange.Candle, i exchange.Interval, closed bool) []byte {
	w := beginEvent(b, "kline", time.Now().UnixMilli(), sym)
	w.name("k")
	k := begin(w.b)
	k.number("t", millis(c.Start))
	k.number("T", millis(c.Start+i.Length())-1)
	k.word("s", pair(sym))
	k.word("i", i.String())
	first, last := tradesOf(c)
	k.number("f", first)
	k.number("L", last)
	put(&k, "o", c.Open)
	put(&k, "c", c.Close)
	put(&k, "h", c.High)
	put(&k, "l", c.Low)
	put(&k, "v", c.Shares)
	k.number("n", int64(c.Trades))
	k.flag("x", closed)
	put(&k, "q", c.Notional)
	put(&k, "V", c.TakerBought)
	put(&k, "Q", c.TakerPaid)
	k.word("B", "0")
	w.b = k.end()
	return w.end()
}

// appendTickerEvent appends the totals of the last 24 hours.
func appendTickerEvent(b []byte, kind streamKind, m *market.Market, now time.Time) []byte {
	c, name := window(m, now), "24hrTicker"
	if kind == miniTickerStream {
		name = "24hrMiniTicker"
	}
	w := beginEvent(b, name, now.UnixMilli(), m.Symbol())
	if kind == tickerStream {
		putChange(&w, &c, "p", "P", "w")
		put(&w, "x", c.Open)
		put(&w, "Q", lastShares(m))
		putBest(&w, m, "b", "B", "a", "A")
		w.number("O", now.Add(-day).UnixMilli())
		w.number("C", now.UnixMilli())
		first, last := tradesOf(&c)
		w.number("F", first)
		w.number("L", last)
		w.number("n", int64(c.Trades))
	}
	put(&w, "c", m.Traded().Last)
	put(&w, "o", c.Open)
	put(&w, "h", c.High)
	put(&w, "l", c.Low)
	put(&w, "v", c.Shares)
	put(&w, "q", c.Notional)
	return w.end()
}
