package web

import (
	"encoding/json"
	"iter"
	"strconv"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// Answers are encoded by hand, without reflection or an allocation for each value: a busy market has thousands of them
// a second. Names of symbols and decimals need no escapes.

// decimal is a type of exact numbers of the exchange.
type decimal interface{ Append(dst []byte) []byte }

// appendDecimal appends a decimal as a string, so that no JSON reader rounds it.
func appendDecimal[D decimal](b []byte, d D) []byte {
	b = append(b, '"')
	b = d.Append(b)
	return append(b, '"')
}

// appendField appends a comma and a member's name.
func appendField(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func appendSym(b []byte, s exchange.Symbol) []byte {
	b = append(b, `"sym":"`...)
	b = append(b, s...)
	return append(b, '"')
}

func appendSeq(b []byte, seq uint64) []byte {
	return strconv.AppendUint(append(b, `"seq":`...), seq, 10)
}

// appendSummary appends a symbol's entry in the list of symbols.
func appendSummary(b []byte, m *market.Market) []byte {
	b = appendSym(append(b, '{'), m.Symbol())
	t := m.Traded()
	if t.Trades > 0 {
		b = appendDecimal(appendField(b, "last"), t.Last)
		b = strconv.AppendInt(appendField(b, "time"), exchange.Seconds(t.Time), 10)
	}
	b = appendDecimal(appendField(b, "shares"), t.Shares)
	b = appendDecimal(appendField(b, "notional"), t.Notional)
	b = strconv.AppendUint(appendField(b, "trades"), t.Trades, 10)
	rules := m.Rules()
	if rules.Tick > 0 {
		b = appendDecimal(appendField(b, "tick"), rules.Tick)
	}
	if rules.Lot > 0 {
		b = appendDecimal(appendField(b, "lot"), rules.Lot)
	}
	if h := m.Halt(); h != nil {
		b = strconv.AppendInt(append(appendField(b, "halted"), `{"time":`...), exchange.Seconds(h.Since), 10)
		b = append(appendText(appendField(b, "reason"), h.Reason), '}')
	}
	if l, ok := m.Best(exchange.Buy); ok {
		b = appendDecimal(appendField(b, "bid"), l.Price)
		b = appendDecimal(appendField(b, "bid_shares"), l.Shares)
	}
	if l, ok := m.Best(exchange.Sell); ok {
		b = appendDecimal(appendField(b, "ask"), l.Price)
		b = appendDecimal(appendField(b, "ask_shares"), l.Shares)
	}
	return append(b, '}')
}

// symbolList is an answer with a list of symbols that grows.
type symbolList struct {
	b   []byte
	seq uint64
	n   int // number of symbols
}

// add appends a symbol. All symbols of a list must be as of the same record.
func (l *symbolList) add(m *market.Market) {
	if l.n == 0 {
		l.seq = m.Seq()
		l.begin()
	} else {
		l.b = append(l.b, ',')
	}
	l.n++
	l.b = appendSummary(l.b, m)
}

func (l *symbolList) begin() { l.b = append(appendSeq(append(l.b, '{'), l.seq), `,"symbols":[`...) }

// end returns the answer.
func (l *symbolList) end() []byte {
	if l.n == 0 {
		l.begin()
	}
	return append(l.b, "]}"...)
}

// appendLevels appends up to depth levels of each side as the members bids and asks.
func appendLevels(b []byte, m *market.Market, depth int) []byte {
	b = append(b, `"bids":[`...)
	b = appendSide(b, m.Bids(), depth)
	b = append(b, `],"asks":[`...)
	b = appendSide(b, m.Asks(), depth)
	return append(b, ']')
}

func appendSide(b []byte, levels iter.Seq2[exchange.Price, exchange.Position], depth int) []byte {
	n := 0
	for price, shares := range levels {
		if n == depth {
			break
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = appendDecimal(append(b, '['), price)
		b = appendDecimal(append(b, ','), shares)
		b = append(b, ']')
	}
	return b
}

// appendTrades appends an answer with the trades from number first to last, which must be in memory.
func appendTrades(b []byte, m *market.Market, seq, first, last uint64) []byte {
	b = appendSym(append(b, '{'), m.Symbol())
	b = append(b, ',')
	b = appendSeq(b, seq)
	b = append(b, `,"trades":[`...)
	for n := first; n <= last; n++ {
		if n > first {
			b = append(b, ',')
		}
		t := m.Trade(n)
		b = strconv.AppendUint(append(b, `{"id":`...), n, 10)
		b = strconv.AppendInt(appendField(b, "time"), exchange.Seconds(t.Time), 10)
		b = appendDecimal(appendField(b, "price"), t.Price)
		b = appendDecimal(appendField(b, "shares"), t.Shares)
		b = append(b, `,"side":"`...)
		b = append(b, t.Side().String()...)
		b = strconv.AppendUint(append(b, `","buy":`...), uint64(t.Buy), 10)
		b = strconv.AppendUint(appendField(b, "sell"), uint64(t.Sell), 10)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// appendOrder appends an answer with an order. next is the number of executions before the next page, 0 if this is the
// last page.
func appendOrder(b []byte, id exchange.OrderID, o *exchange.PublicOrder, next int) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(id), 10)
	b = appendSym(append(b, ','), o.Symbol)
	b = append(b, `,"side":"`...)
	b = append(b, o.Side.String()...)
	b = appendDecimal(append(b, `","limit":`...), o.Limit)
	b = appendDecimal(appendField(b, "shares"), o.Shares)
	b = appendInstructions(b, &o.Terms)
	b = appendDecimal(appendField(b, "open"), o.Status.Open)
	if o.Status.Canceled > 0 {
		b = appendDecimal(append(b, `,"canceled":{"shares":`...), o.Status.Canceled)
		b = strconv.AppendInt(appendField(b, "time"), exchange.Seconds(o.Status.CanceledAt), 10)
		b = append(b, '}')
	}
	b = appendChanges(b, o.Status.Changes)
	b = append(b, `,"executed":[`...)
	for i, e := range o.Status.Executions {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDecimal(append(b, `{"shares":`...), e.Shares)
		b = appendDecimal(appendField(b, "price"), e.Price)
		b = strconv.AppendInt(appendField(b, "time"), exchange.Seconds(e.Time), 10)
		b = append(b, '}')
	}
	b = append(b, ']')
	if next > 0 {
		b = strconv.AppendInt(appendField(b, "next"), int64(next), 10)
	}
	return append(b, '}')
}

// appendInstructions appends the order's non-default instructions as members.
func appendInstructions(b []byte, t *exchange.Terms) []byte {
	name := func(field, value string) { b = append(append(append(appendField(b, field), '"'), value...), '"') }
	if t.Type != exchange.Limited {
		name("type", t.Type.String())
	}
	if t.TIF != exchange.GTC {
		name("tif", t.TIF.String())
	}
	if t.Post {
		b = append(b, `,"post":true`...)
	}
	if t.STP != exchange.TradeWithSelf {
		name("stp", t.STP.String())
	}
	return b
}

// appendChanges appends what amends did to an order as members.
func appendChanges(b []byte, c *exchange.Changes) []byte {
	if c == nil {
		return b
	}
	if c.Replaced > 0 {
		b = strconv.AppendUint(appendField(b, "replaced"), uint64(c.Replaced), 10)
	}
	if c.Reduced > 0 {
		b = appendDecimal(append(b, `,"reduced":{"shares":`...), c.Reduced)
		b = append(strconv.AppendInt(appendField(b, "time"), exchange.Seconds(c.ReducedAt), 10), '}')
	}
	return b
}

// appendText appends a text as a JSON string.
func appendText(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(b, quoted...)
}
