package market

import (
	"context"
	"fmt"
	"slices"

	"outcry/internal/exchange"
)

// CandlesMost is the maximum number of candles in one answer.
const CandlesMost = 1000

// CandlesQuery selects candles.
type CandlesQuery struct {
	Symbol   exchange.Symbol
	Interval exchange.Interval
	// From (inclusive) and To (exclusive) bound the starts of the candles, in nanoseconds since the Unix epoch; 0 means
	// no bound.
	From, To int64
	Limit    int // from 1 to CandlesMost
}

// Candles returns the candles that q selects, oldest first: the first ones from q.From on or, if q.From is 0, the
// newest. They include every trade up to record seq, the feed's last record at the time of the call. Candles no longer
// in memory come from Options.Candles, within ctx. The error wraps ErrUnknownSymbol, or ErrNotStored if the database
// does not yet have candles that memory no longer has, or says why the database failed or why there is no market data.
func (f *Feed) Candles(ctx context.Context, q CandlesQuery) (all []exchange.Candle, seq uint64, err error) {
	if q.Limit < 1 || q.Limit > CandlesMost || q.Interval >= exchange.Intervals {
		return nil, 0, fmt.Errorf("%d candles of interval %d are requested", q.Limit, q.Interval)
	}
	var older bool
	var edge int64
	var dropped uint64
	err = f.View(q.Symbol, func(m *Market) {
		seq = m.Seq()
		all = m.s.candles.all(q.Interval)
		if older = m.s.traded.Trades > 0; len(all) > 0 {
			edge, older = all[0].Start, all[0].First > 1
			dropped = m.s.candles.rings[q.Interval].dropped
		}
	})
	if err != nil {
		return nil, 0, err
	}
	all = q.choose(all)
	if older = older && q.wantsBefore(edge, len(all)); !older || f.options.Candles == nil {
		return all, seq, nil
	}
	if stored := f.options.Stored(); stored < dropped {
		return nil, 0, fmt.Errorf("%w: it has everything up to record %d, and needs %d; try again",
			ErrNotStored, stored, dropped)
	}
	to, limit := edge, q.Limit
	if q.To != 0 && (edge == 0 || q.To < edge) {
		to = q.To
	}
	if q.From == 0 {
		limit -= len(all)
	}
	before, err := f.options.Candles(ctx, q.Symbol, q.Interval, q.From, to, limit)
	if err != nil {
		return nil, 0, err
	}
	return q.choose(append(before, all...)), seq, nil
}

// choose returns the candles that q selects from a sorted list.
func (q *CandlesQuery) choose(all []exchange.Candle) []exchange.Candle {
	all = slices.DeleteFunc(all, func(c exchange.Candle) bool {
		return q.From != 0 && c.Start < q.From || q.To != 0 && c.Start >= q.To
	})
	if q.From != 0 {
		return all[:min(len(all), q.Limit)]
	}
	return all[len(all)-min(len(all), q.Limit):]
}

// wantsBefore reports whether q selects candles that start before edge, given that have selected candles start at edge
// or later. An edge of 0 is the end of time.
func (q *CandlesQuery) wantsBefore(edge int64, have int) bool {
	if q.From != 0 {
		return edge == 0 || q.From < edge
	}
	return have < q.Limit
}
