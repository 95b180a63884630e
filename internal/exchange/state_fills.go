package exchange

import "fmt"

// FillsError reports that a replay matched an order differently than its event records.
type FillsError struct {
	Order         OrderID
	Symbol        Symbol
	Recorded, Now []Fill
}

// Error names the order and both lists of fills.
func (e *FillsError) Error() string {
	return fmt.Sprintf("exchange: replay: order %d of %s was filled %v, now %v", e.Order, e.Symbol, e.Recorded, e.Now)
}

// First returns the first index, from 0, at which the fills differ, and the two fills
// there; a fill is nil if its list is shorter.
func (e *FillsError) First() (place int, recorded, now *Fill) {
	for i := 0; ; i++ {
		recorded, now = fillAt(e.Recorded, i), fillAt(e.Now, i)
		if recorded == nil || now == nil || !recorded.same(*now) {
			return i, recorded, now
		}
	}
}

func fillAt(fills []Fill, i int) *Fill {
	if i < len(fills) {
		return &fills[i]
	}
	return nil
}
