package postgres

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"outcry/internal/exchange"
)

// tradedChange sums a batch's trades of one symbol.
type tradedChange struct {
	exchange.Traded
	seconds []exchange.Candle // candles of one second each; trade numbers count from 1 within the batch
	before  uint64            // trades of the symbol before the batch; set when the batch is written
}

// reset empties t, and keeps memory for the next batch.
func (t *tradedChange) reset() { *t = tradedChange{seconds: t.seconds[:0]} }

// trade adds an order's fills to the sums of its symbol, and returns those sums.
func (b *batch) trade(e *exchange.Event) *tradedChange {
	traded := &b.symbols.find(e.Symbol).value
	start := exchange.Candle1s.StartOf(e.Time)
	if n := len(traded.seconds); n == 0 || traded.seconds[n-1].Start < start {
		traded.seconds = append(traded.seconds, exchange.Candle{Start: start})
	}
	second := &traded.seconds[len(traded.seconds)-1]
	for i := range e.Fills {
		t := e.Trade(i)
		traded.Add(&t)
		second.Add(&t, traded.Trades)
	}
	return traded
}

// traded ranges over the symbols with trades.
func (b *batch) traded() iter.Seq[*namedValue[exchange.Symbol, tradedChange]] {
	return func(yield func(*namedValue[exchange.Symbol, tradedChange]) bool) {
		for _, s := range b.symbols.all {
			if s.value.Trades > 0 && !yield(s) {
				return
			}
		}
	}
}

// candles calls f for each candle of an interval that has trades of the batch. newest is the start of the
// newest one-second candle in the tables; no candle starts before the one that contains it.
func (t *tradedChange) candles(i exchange.Interval, newest int64, f func(*exchange.Candle)) {
	var now exchange.Candle
	for _, second := range t.seconds {
		second.Start = i.StartOf(max(second.Start, newest))
		second.First += t.before
		switch {
		case now.Trades == 0:
			now = second
		case now.Start == second.Start:
			now.Join(&second)
		default:
			f(&now)
			now = second
		}
	}
	f(&now)
}

// executionNumbers are the bases from which the numbers in the row of an execution count, until the batch is written.
type executionNumbers struct {
	end            int // end of the row in executionLog
	market         *tradedChange
	taker, resting *cashChange // accounts of the taker and of the resting order
	numbers
}

// numbersBytes is the length of the last columns of execution_log: trade, taker_fill and resting_fill.
const numbersBytes = 3 * (4 + 8)

// number adds the row b.executing, which is the market's trade of this number in the batch. It gives the execution its
// number in each of its two accounts, first in that of the resting order. Both may be the same account.
func (b *batch) number(market *tradedChange, trade uint64, taker, resting *cashChange) {
	x := &b.executing
	resting.fills.add(x.order, x.n, false, x.symbol)
	x.maker = uint64(resting.fills.n)
	resting.event(b.last)
	taker.fills.add(x.order, x.n, true, x.symbol)
	x.taker = uint64(taker.fills.n)
	taker.event(b.last)
	x.trade = trade
	b.executionLog.add(x)
	b.executions = append(b.executions, executionNumbers{len(b.executionLog.b), market, taker, resting, x.numbers})
}

// executed returns the rows of the executions, whose numbers then continue those in the tables.
func (b *batch) executed() *copyRows[execution] {
	for i := range b.executions {
		x := &b.executions[i]
		last := b.executionLog.b[x.end-numbersBytes : x.end]
		binary.BigEndian.PutUint64(last[4:], x.trade+x.market.before)
		binary.BigEndian.PutUint64(last[16:], x.numbers.taker+x.taker.before)
		binary.BigEndian.PutUint64(last[28:], x.maker+x.resting.before)
	}
	return &b.executionLog
}

var candleTable = &table[exchange.CandleState]{"candles", []column[exchange.CandleState]{
	text("sym", func(c *exchange.CandleState) *exchange.Symbol { return &c.Symbol }),
	integerOf("seconds", nil, func(c *exchange.CandleState, v int32) {
		c.Interval = exchange.Intervals
		for i := range exchange.Intervals {
			if i.Length() == int64(v)*exchange.Second {
				c.Interval = i
			}
		}
	}),
	seconds("start", func(c *exchange.CandleState) *int64 { return &c.Start }),
	readOnly("open", "numeric", func(c *exchange.CandleState) any { return (*priceColumn)(&c.Open) }),
	readOnly("high", "numeric", func(c *exchange.CandleState) any { return (*priceColumn)(&c.High) }),
	readOnly("low", "numeric", func(c *exchange.CandleState) any { return (*priceColumn)(&c.Low) }),
	readOnly("close", "numeric", func(c *exchange.CandleState) any { return (*priceColumn)(&c.Close) }),
	position("shares", func(c *exchange.CandleState) *exchange.Position { return &c.Shares }),
	readOnly("notional", "numeric", func(c *exchange.CandleState) any { return (*notionalColumn)(&c.Notional) }),
	position("taker_bought", func(c *exchange.CandleState) *exchange.Position { return &c.TakerBought }),
	readOnly("taker_paid", "numeric", func(c *exchange.CandleState) any { return (*notionalColumn)(&c.TakerPaid) }),
	bigint("first_trade", func(c *exchange.CandleState) *uint64 { return &c.First }),
	bigint("trades", func(c *exchange.CandleState) *uint64 { return &c.Trades }),
}}

// addCandles adds trades to candles. A sum of money above the type's maximum is passed as a number of full
// maxima and a rest.
const addCandles = `INSERT INTO people.candles AS c (sym, seconds, start, open, high, low, close, shares, notional,
		taker_bought, taker_paid, first_trade, trades)
	SELECT sym, seconds, start, open, high, low, close, shares, trim_scale(rounds * 1000000000000000000000 + rest),
	       taker_bought, trim_scale(taker_rounds * 1000000000000000000000 + taker_rest), first_trade, trades
	  FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::numeric[], $5::numeric[], $6::numeric[], $7::numeric[],
	              $8::numeric[], $9::bigint[], $10::numeric[], $11::numeric[], $12::bigint[], $13::numeric[],
	              $14::bigint[], $15::bigint[])
	    AS d (sym, seconds, start, open, high, low, close, shares, rounds, rest, taker_bought, taker_rounds, taker_rest,
	          first_trade, trades)
	ON CONFLICT (sym, seconds, start) DO UPDATE SET high = greatest(c.high, excluded.high),
		low = least(c.low, excluded.low), close = excluded.close, shares = trim_scale(c.shares + excluded.shares),
		notional = trim_scale(c.notional + excluded.notional),
		taker_bought = trim_scale(c.taker_bought + excluded.taker_bought),
		taker_paid = trim_scale(c.taker_paid + excluded.taker_paid), trades = c.trades + excluded.trades`

// candles adds the trades to the candles of their symbols. newest has the start of each symbol's newest
// one-second candle before the batch.
func (w *writer) candles(b *batch, newest map[exchange.Symbol]int64) {
	texted, lengths, starts := newArray(texts), newArray(integers), newArray(bigints)
	var prices [4]array
	for i := range prices {
		prices[i] = newArray(numerics)
	}
	shares, rounds, rests := newArray(numerics), newArray(bigints), newArray(numerics)
	bought, paidRounds, paidRests := newArray(numerics), newArray(bigints), newArray(numerics)
	firsts, trades := newArray(bigints), newArray(bigints)
	// The order is that of the index, so that neighbouring rows are found in the same pages.
	symbols := slices.SortedFunc(b.traded(), func(s, t *namedValue[exchange.Symbol, tradedChange]) int {
		return strings.Compare(string(s.name), string(t.name))
	})
	for _, s := range symbols {
		for i := range exchange.Intervals {
			s.value.candles(i, newest[s.name], func(c *exchange.Candle) {
				texted.text(string(s.name))
				lengths.integer(int32(exchange.Seconds(i.Length())))
				starts.bigint(exchange.Seconds(c.Start))
				for p, price := range [4]exchange.Price{c.Open, c.High, c.Low, c.Close} {
					prices[p].position(exchange.Shares(price).Position())
				}
				shares.position(c.Shares)
				rounds.bigint(int64(c.Notional.Rounds))
				rests.cash(c.Notional.Rest)
				bought.position(c.TakerBought)
				paidRounds.bigint(int64(c.TakerPaid.Rounds))
				paidRests.cash(c.TakerPaid.Rest)
				firsts.bigint(int64(c.First))
				trades.bigint(int64(c.Trades))
			})
		}
	}
	w.expect(texted.n, w.run(addCandles, texted.bytes(), lengths.bytes(), starts.bytes(), prices[0].bytes(),
		prices[1].bytes(), prices[2].bytes(), prices[3].bytes(), shares.bytes(), rounds.bytes(), rests.bytes(),
		bought.bytes(), paidRounds.bytes(), paidRests.bytes(), firsts.bytes(), trades.bytes()), "candles")
}
