package exchange

// Candle sums up the trades of a symbol in one interval. It is empty before the first Add; empty candles are
// never published.
type Candle struct {
	Start                  int64 // start, in nanoseconds since the Unix epoch, UTC; a multiple of the interval
	Open, High, Low, Close Price
	Shares                 Position
	Notional               Turnover
	TakerBought            Position // shares of the trades whose taker bought
	TakerPaid              Turnover // notional of the trades whose taker bought
	First, Trades          uint64   // the first trade's number within the symbol, and the number of trades
}

// Interval is the length of a candle.
type Interval uint8

// The supported intervals.
const (
	Candle1s Interval = iota
	Candle1m
	Candle5m
	Candle1h
	Candle1d
	Intervals // the number of intervals
)

var intervals = [Intervals]struct {
	name    string
	seconds int64
}{{"1s", 1}, {"1m", 60}, {"5m", 300}, {"1h", 3600}, {"1d", 86400}}

// String returns the interval's name, such as "5m".
func (i Interval) String() string { return intervals[i].name }

// Length returns the interval in nanoseconds.
func (i Interval) Length() int64 { return intervals[i].seconds * Second }

// ParseInterval returns the interval with this name, and whether there is one.
func ParseInterval(name string) (i Interval, ok bool) {
	for i := range Intervals {
		if intervals[i].name == name {
			return i, true
		}
	}
	return 0, false
}

// StartOf returns the start of the candle that contains a time, both in nanoseconds since the Unix epoch.
func (i Interval) StartOf(time int64) int64 {
	length := i.Length()
	start := time - time%length
	if time < 0 && time%length != 0 {
		start -= length
	}
	return start
}

// Add adds the symbol's n-th trade, which must be in the candle's interval and newer than all trades before.
// Start must be set before the first Add.
func (c *Candle) Add(t *Trade, n uint64) {
	if c.Trades == 0 {
		c.First, c.Open, c.High, c.Low = n, t.Price, t.Price, t.Price
	}
	c.High, c.Low, c.Close = max(c.High, t.Price), min(c.Low, t.Price), t.Price
	worth := Notional(t.Shares, t.Price)
	c.Shares, c.Notional = c.Shares.Add(t.Shares.Position()), c.Notional.Add(worth)
	if t.Side() == Buy {
		c.TakerBought, c.TakerPaid = c.TakerBought.Add(t.Shares.Position()), c.TakerPaid.Add(worth)
	}
	c.Trades++
}

// CandleState is a candle with its symbol and interval, as a database keeps it.
type CandleState struct {
	Symbol   Symbol
	Interval Interval
	Candle
}

// StartAfter returns the start of the candle that a symbol's next trade belongs to. newest is the start of its
// newest candle. A trade with an earlier time, in records of older programs whose clock was set back over a
// restart, still belongs to the newest candle, so that candles are in the same order as trades.
func (i Interval) StartAfter(newest, time int64) int64 { return max(newest, i.StartOf(time)) }

// Last returns the number, within the symbol, of the newest trade in c. c must not be empty.
func (c *Candle) Last() uint64 { return c.First + c.Trades - 1 }

// Join adds the trades of next, which must follow those of c directly and be in the same interval.
// Neither candle may be empty.
func (c *Candle) Join(next *Candle) {
	c.High, c.Low, c.Close = max(c.High, next.High), min(c.Low, next.Low), next.Close
	c.Shares, c.Notional = c.Shares.Add(next.Shares), c.Notional.Plus(next.Notional)
	c.TakerBought, c.TakerPaid = c.TakerBought.Add(next.TakerBought), c.TakerPaid.Plus(next.TakerPaid)
	c.Trades += next.Trades
}
