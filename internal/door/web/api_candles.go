package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// millisecond is the unit of candle times in answers: every candle begins at a whole millisecond.
const millisecond = exchange.Second / 1000

// candles answers with candles of a symbol.
func (a *API) candles(f *market.Feed, r *http.Request, q query) ([]byte, error) {
	name, err := symbolOf(r.PathValue("sym"))
	if err != nil {
		return nil, err
	}
	ask := market.CandlesQuery{Symbol: name}
	if ask.Interval, err = q.interval(); err != nil {
		return nil, err
	}
	if ask.From, err = q.moment("start"); err != nil {
		return nil, err
	}
	if ask.To, err = q.moment("end"); err != nil {
		return nil, err
	}
	if ask.To != 0 {
		ask.To++ // the parameter includes its millisecond, market.CandlesQuery.To does not
	}
	if ask.Limit, err = q.number("limit", candlesDefault, 1, market.CandlesMost); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	all, seq, err := f.Candles(ctx, ask)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("candles of %s: no answer from Postgres within %s; try again",
			name, orderTimeout)
	}
	if err != nil {
		return nil, err
	}
	return appendCandles(nil, name, seq, ask.Interval, all), nil
}

// interval returns the required parameter interval.
func (q query) interval() (exchange.Interval, error) {
	text := q.Get("interval")
	i, ok := exchange.ParseInterval(text)
	if !ok {
		return 0, badRequest("interval %.100q is not one of 1s, 1m, 5m, 1h, 1d", text)
	}
	return i, nil
}

// moment returns a parameter given in milliseconds since the Unix epoch, in nanoseconds; 0 if it is not given.
func (q query) moment(name string) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return 0, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > momentMost {
		return 0, badRequest("%s %.100q is not a number of milliseconds from 1 to %d", name, text, int64(momentMost))
	}
	return ms * millisecond, nil
}

// momentMost is the last whole millisecond that fits into 64-bit nanoseconds, in the year 2262.
const momentMost = (1<<63 - 1) / millisecond

// appendCandles appends an answer with candles of a symbol.
func appendCandles(b []byte, name exchange.Symbol, seq uint64, i exchange.Interval, all []exchange.Candle) []byte {
	b = jsontext.Number(jsontext.Word(append(b, '{'), "sym", name), "seq", seq)
	b = jsontext.Name(jsontext.Word(b, "interval", i.String()), "candles")
	return append(jsontext.List(b, all, appendCandle), '}')
}

func appendCandle(b []byte, c *exchange.Candle) []byte {
	b = jsontext.Number(append(b, '{'), "start_ms", c.Start/millisecond)
	b = jsontext.Decimal(b, "open", c.Open)
	b = jsontext.Decimal(b, "high", c.High)
	b = jsontext.Decimal(b, "low", c.Low)
	b = jsontext.Decimal(b, "close", c.Close)
	b = jsontext.Decimal(b, "shares", c.Shares)
	b = jsontext.Decimal(b, "notional", c.Notional)
	b = jsontext.Number(b, "first", c.First)
	b = jsontext.Number(b, "trades", c.Trades)
	return append(b, '}')
}
