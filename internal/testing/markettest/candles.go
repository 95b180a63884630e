package markettest

import (
	"math/rand/v2"
	"outcry/internal/exchange"
	"time"
)

// CandleTwin is a reference model: it has all trades of S, and computes the candles from them in the most obvious way.
type CandleTwin struct {
	Trades []exchange.Trade
	Seqs   []uint64 // journal record of each trade
}

// Candles returns the candles of an interval after the record seq. A trade belongs to the candle of its time, or to
// the newest candle so far if that is later.
func (w *CandleTwin) Candles(i exchange.Interval, seq uint64) (all []exchange.Candle) {
	for n := range w.Trades {
		if w.Seqs[n] > seq {
			break
		}
		t := &w.Trades[n]
		start := time.Unix(0, t.Time).UTC().Truncate(time.Duration(i.Length())).UnixNano()
		if last := len(all) - 1; last < 0 || start > all[last].Start {
			all = append(all, exchange.Candle{Start: start, First: uint64(n + 1), Open: t.Price, High: t.Price, Low: t.Price})
		}
		c := &all[len(all)-1]
		c.High, c.Low, c.Close = max(c.High, t.Price), min(c.Low, t.Price), t.Price
		c.Trades++
		c.Shares = c.Shares.Add(t.Shares.Position())
		c.Notional = c.Notional.Add(exchange.Notional(t.Shares, t.Price))
		if t.Side() == exchange.Buy {
			c.TakerBought = c.TakerBought.Add(t.Shares.Position())
			c.TakerPaid = c.TakerPaid.Add(exchange.Notional(t.Shares, t.Price))
		}
	}
	return all
}

// CandleMarket makes records of S, with prices from 1 to 40: buys rest at 1 to 20, sells above.
type CandleMarket struct {
	CandleTwin
	R     *rand.Rand
	Seq   uint64
	order exchange.OrderID
	now   int64
}

// NewCandleMarket returns a market, and the records with which it begins.
func NewCandleMarket(seed uint64) (m *CandleMarket, opening [][]byte) {
	m = &CandleMarket{R: rand.New(rand.NewPCG(seed, 4)), now: 1_795_000_000 * exchange.Second}
	opening = [][]byte{Made}
	for p := exchange.Price(1); p <= 40; p++ {
		m.order++
		opening = append(opening, Placed(m.order, m.SideAt(p), 1e15, p))
	}
	m.Seq = uint64(len(opening))
	return m, opening
}

// SideAt returns the side whose orders may rest at a price.
func (m *CandleMarket) SideAt(p exchange.Price) exchange.Side {
	if p <= 20 {
		return exchange.Buy
	}
	return exchange.Sell
}

// Trade returns the record of an order that executes at least once. Its time is mostly later than the previous
// trade's, and sometimes earlier.
func (m *CandleMarket) Trade() []byte {
	switch m.R.IntN(20) {
	case 0:
		m.now += m.R.Int64N(400) * exchange.Second
	case 1:
		m.now += m.R.Int64N(5000) * exchange.Second
	case 2:
		m.now -= m.R.Int64N(200) * exchange.Second
	default:
		m.now += m.R.Int64N(exchange.Second)
	}
	m.Seq++
	m.order++
	p := exchange.Price(1 + m.R.IntN(40))
	e := exchange.Event{Kind: exchange.OrderAccepted, Order: m.order, Time: m.now, Terms: exchange.Terms{
		Side: exchange.Buy + exchange.Sell - m.SideAt(p), Limit: p}}
	for range 1 + m.R.IntN(2) {
		n := exchange.Shares(1 + m.R.IntN(1000))
		e.Shares += n
		e.Fills = append(e.Fills, exchange.Fill{Resting: exchange.OrderID(p), Account: "1", Shares: n, Price: p})
	}
	for i := range e.Fills {
		m.Trades = append(m.Trades, e.Trade(i))
		m.Seqs = append(m.Seqs, m.Seq)
	}
	return Event(e)
}
