package exchange

// Candle is what the trades of a symbol came to within one interval. It is empty before the first Add; empty
// candles are told nowhere.
type Candle struct {
	Start                  int64 // of the interval, nanoseconds since the Unix epoch, UTC; a multiple of its length
	Open, High, Low, Close Price
	Shares                 Position
	Notional               Turnover
	TakerBought            Position // of Shares, what a taker bought
	TakerPaid              Turnover // of Notional, what a taker bought
	First, Trades          uint64   // the symbol's number of the first trade, and how many there are
}

// Interval is the length of a candle.
type Interval uint8

// The intervals that are kept.
const (
	Candle1s Interval = iota
	Candle1m
	Candle5m
	Candle1h
	Candle1d
	Intervals // how many there are
)

var intervals = [Intervals]struct {
	name    string
	seconds int64
}{{"1s", 1}, {"1m", 60}, {"5m", 300}, {"1h", 3600}, {"1d", 86400}}

// String returns the interval's name, as 5m.
func (i Interval) String() string { return intervals[i].name }

// Length returns the interval in nanoseconds.
func (i Interval) Length() int64 { return intervals[i].seconds * Second }

// ParseInterval returns the interval of a name; ok is false if there is none.
func ParseInterval(name string) (i Interval, ok bool) {
	for i := range Intervals {
		if intervals[i].name == name {
			return i, true
		}
	}
	return 0, false
}

// StartOf returns the start of the candle in which a time lies, both in nanoseconds since the Unix epoch.
func (i Interval) StartOf(time int64) int64 {
	length := i.Length()
	start := time - time%length
	if time < 0 && time%length != 0 {
		start -= length
	}
	return start
}

// Add counts one more trade, the symbol's n-th, which lies in the candle and is the newest. The first one begins
// it: its Start must be set.
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

// CandleState is a symbol's candle of an interval, as a database keeps it.
type CandleState struct {
	Symbol   Symbol
	Interval Interval
	Candle
}

// StartAfter returns the start of the candle to which a symbol's next trade belongs. newest is the start of its
// newest candle: a trade whose time lies before that, in records of older programs, whose clock was set back
// over a restart, still belongs to it, so that candles follow each other as trades do.
func (i Interval) StartAfter(newest, time int64) int64 { return max(newest, i.StartOf(time)) }

// Last returns the symbol's number of the newest trade in c, which is not empty.
func (c *Candle) Last() uint64 { return c.First + c.Trades - 1 }

// Join counts the trades of next, which follow those of c directly and lie in the same candle.
// Neither is empty.
func (c *Candle) Join(next *Candle) {
	c.High, c.Low, c.Close = max(c.High, next.High), min(c.Low, next.Low), next.Close
	c.Shares, c.Notional = c.Shares.Add(next.Shares), c.Notional.Plus(next.Notional)
	c.TakerBought, c.TakerPaid = c.TakerBought.Add(next.TakerBought), c.TakerPaid.Plus(next.TakerPaid)
	c.Trades += next.Trades
}
