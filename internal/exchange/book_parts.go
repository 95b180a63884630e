package exchange

// FillsMax is the maximum number of resting orders that one part of an order fills, or cancels for self-trade
// prevention. An order that meets more executes in several parts, each with its own event.
const FillsMax = 4096

// PartFillsMin is the minimum number of resting orders that a part fills if another part follows. Both bounds
// belong to the journal's format: a replay ends each part where it ended originally, and treats a part with
// fewer fills as everything that the order could execute.
const PartFillsMin = 128

// PartFillsFor returns how many orders a part may fill so that its event has at most eventBytes bytes, whatever
// accounts trade: from PartFillsMin to FillsMax. If eventBytes is below about 12 KiB, even PartFillsMin does not fit.
func PartFillsFor(eventBytes int) int {
	return max(PartFillsMin, min(FillsMax, (eventBytes-EventBytesMax-instructionBytesMax)/fillBytesMax(AccountDigitsMax)))
}

// partFills returns the maximum number of orders that one part fills.
func (x *Index) partFills() int {
	if x.FillsMax > 0 {
		return x.FillsMax
	}
	return FillsMax
}

// replayFills returns the maximum number of orders for the part that a replay of e executes: as many as e filled
// and canceled, if a part may end after that many. Before version 3 of the journal there were no parts, and
// events may have more than FillsMax fills.
func (x *Index) replayFills(e *Event) int {
	recorded, most := len(e.Fills)+len(e.Own), x.partFills()
	if recorded < min(most, PartFillsMin) {
		return most
	}
	if e.Rest > 0 {
		return recorded + 1 // the original part visited one more order, and stopped
	}
	return recorded
}

// Unfinished returns the order that has executed a part and could execute more at once, or 0 if there is none. It
// is the newest order of a crossed book, so it follows from the resting orders alone. Until Continue has finished
// it, Submit, Cancel, Reduce and Replace must not be called.
func (b *Book) Unfinished() OrderID {
	if b.crossed() {
		return b.newest
	}
	return 0
}

// Continue executes the next part of the unfinished order, as Submit did the first one, and sets o to the order
// after it. It panics if no order is unfinished.
func (b *Book) Continue(o *Order, now int64, fills []Fill) []Fill {
	return b.proceed(o, now, fills, b.index.partFills())
}

// FillBytesMax returns the maximum number of bytes that the first part of o can add to its event (AppendEvent) beyond
// EventBytesMax, and whether that part is the only one (whole). It visits no more than FillsMax + 1 orders and changes
// nothing.
func (b *Book) FillBytesMax(o *Order) (bytes int, whole bool) {
	bytes = o.moreBytesMax()
	opposite := b.side(o.Side.opposite())
	if opposite.bestKey < opposite.key(o.Limit) {
		return bytes, true
	}
	if o.STP != TradeWithSelf {
		return b.meetBytesMax(o, bytes)
	}
	if n := b.orders.at(opposite.best.oldest); n.left >= o.Open {
		return bytes + fillBytesMax(len(n.account.ID)), true // most orders fill one resting order
	}
	left := b.index.partFills()
	for n := range b.matches(o) {
		if left == 0 {
			return bytes, false
		}
		left--
		bytes += fillBytesMax(len(n.account.ID))
	}
	return bytes, true
}

// meetBytesMax is FillBytesMax for an order with self-trade prevention.
func (b *Book) meetBytesMax(o *Order, bytes int) (_ int, whole bool) {
	left := b.index.partFills()
	for n, own := range b.meets(*o) {
		switch left--; {
		case left < 0:
			return bytes, false
		case own:
			bytes += ownBytesMax
		default:
			bytes += fillBytesMax(len(n.account.ID))
		}
	}
	return bytes, true
}

// PartsMax returns upper bounds on Submit(o): the number of parts, and the bytes of the event of each part. It takes
// constant time and changes nothing. accountDigits is the length of the longest account id.
func (b *Book) PartsMax(o *Order, accountDigits int) (parts, bytes int) {
	fills, most := b.index.partFills(), int64(b.resting[o.Side.opposite()&1])
	if o.STP != CancelOldest {
		most = min(most, int64(o.Open)) // each resting order executes at least the smallest unit of o, or stops o
	}
	bytes = EventBytesMax + fills*fillBytesMax(accountDigits) + o.moreBytesMax()
	return int((most + int64(fills) - 1) / int64(fills)), bytes
}
