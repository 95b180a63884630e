package web

import (
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// appendSummary appends a symbol's entry in the list of symbols.
func appendSummary(b []byte, m *market.Market) []byte {
	b = jsontext.Word(append(b, '{'), "sym", m.Symbol())
	t := m.Traded()
	if t.Trades > 0 {
		b = jsontext.Decimal(b, "last", t.Last)
		b = jsontext.Number(b, "time", exchange.Seconds(t.Time))
	}
	b = jsontext.Decimal(b, "shares", t.Shares)
	b = jsontext.Decimal(b, "notional", t.Notional)
	b = jsontext.Number(b, "trades", t.Trades)
	rules := m.Rules()
	if rules.Tick > 0 {
		b = jsontext.Decimal(b, "tick", rules.Tick)
	}
	if rules.Lot > 0 {
		b = jsontext.Decimal(b, "lot", rules.Lot)
	}
	if h := m.Halt(); h != nil {
		b = jsontext.Number(append(jsontext.Name(b, "halted"), '{'), "time", exchange.Seconds(h.Since))
		b = append(jsontext.Text(b, "reason", h.Reason), '}')
	}
	if l, ok := m.Best(exchange.Buy); ok {
		b = jsontext.Decimal(b, "bid", l.Price)
		b = jsontext.Decimal(b, "bid_shares", l.Shares)
	}
	if l, ok := m.Best(exchange.Sell); ok {
		b = jsontext.Decimal(b, "ask", l.Price)
		b = jsontext.Decimal(b, "ask_shares", l.Shares)
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
	}
	l.n++
	l.b = appendSummary(jsontext.Next(l.b), m)
}

func (l *symbolList) begin() {
	l.b = append(jsontext.Name(jsontext.Number(append(l.b, '{'), "seq", l.seq), "symbols"), '[')
}

// end returns the answer.
func (l *symbolList) end() []byte {
	if l.n == 0 {
		l.begin()
	}
	return append(l.b, "]}"...)
}

// appendLevels appends up to depth levels of each side as the members bids and asks.
func appendLevels(b []byte, m *market.Market, depth int) []byte {
	b = jsontext.Levels(jsontext.Name(b, "bids"), m.Bids(), depth, jsontext.AppendLevel)
	return jsontext.Levels(jsontext.Name(b, "asks"), m.Asks(), depth, jsontext.AppendLevel)
}

// appendTrades appends an answer with the trades from number first to last, which must be in memory.
func appendTrades(b []byte, m *market.Market, seq, first, last uint64) []byte {
	b = jsontext.Number(jsontext.Word(append(b, '{'), "sym", m.Symbol()), "seq", seq)
	b = append(jsontext.Name(b, "trades"), '[')
	for n := first; n <= last; n++ {
		t := m.Trade(n)
		b = jsontext.Number(append(jsontext.Next(b), '{'), "id", n)
		b = jsontext.Number(b, "time", exchange.Seconds(t.Time))
		b = jsontext.Decimal(b, "price", t.Price)
		b = jsontext.Decimal(b, "shares", t.Shares)
		b = jsontext.Word(b, "side", t.Side().String())
		b = append(jsontext.Number(jsontext.Number(b, "buy", t.Buy), "sell", t.Sell), '}')
	}
	return append(b, "]}"...)
}

// appendOrder appends an answer with an order. next is the number of executions before the next page, 0 if this is the
// last page.
func appendOrder(b []byte, id exchange.OrderID, o *exchange.PublicOrder, next int) []byte {
	b = jsontext.Word(jsontext.Number(append(b, '{'), "id", id), "sym", o.Symbol)
	b = jsontext.Decimal(jsontext.Word(b, "side", o.Side.String()), "limit", o.Limit)
	b = jsontext.Decimal(b, "shares", o.Shares)
	b = appendInstructions(b, &o.Terms)
	b = jsontext.Decimal(b, "open", o.Status.Open)
	if o.Status.Canceled > 0 {
		b = jsontext.Decimal(append(jsontext.Name(b, "canceled"), '{'), "shares", o.Status.Canceled)
		b = append(jsontext.Number(b, "time", exchange.Seconds(o.Status.CanceledAt)), '}')
	}
	b = appendChanges(b, o.Status.Changes)
	b = jsontext.List(jsontext.Name(b, "executed"), o.Status.Executions, appendExecution)
	if next > 0 {
		b = jsontext.Number(b, "next", next)
	}
	return append(b, '}')
}

func appendExecution(b []byte, e *exchange.Execution) []byte {
	b = jsontext.Decimal(jsontext.Decimal(append(b, '{'), "shares", e.Shares), "price", e.Price)
	return append(jsontext.Number(b, "time", exchange.Seconds(e.Time)), '}')
}

// appendInstructions appends the order's non-default instructions as members.
func appendInstructions(b []byte, t *exchange.Terms) []byte {
	if t.Type != exchange.Limited {
		b = jsontext.Word(b, "type", t.Type.String())
	}
	if t.TIF != exchange.GTC {
		b = jsontext.Word(b, "tif", t.TIF.String())
	}
	if t.Post {
		b = jsontext.Bool(b, "post", true)
	}
	if t.STP != exchange.TradeWithSelf {
		b = jsontext.Word(b, "stp", t.STP.String())
	}
	return b
}

// appendChanges appends JSON members that describe what amends did to an order.
func appendChanges(b []byte, c *exchange.Changes) []byte {
	if c == nil {
		return b
	}
	if c.Replaced > 0 {
		b = jsontext.Number(b, "replaced", c.Replaced)
	}
	if c.Reduced > 0 {
		b = jsontext.Decimal(append(jsontext.Name(b, "reduced"), '{'), "shares", c.Reduced)
		b = append(jsontext.Number(b, "time", exchange.Seconds(c.ReducedAt)), '}')
	}
	return b
}
