package exchange

// FillsMax is how many resting orders a part of an order fills, or cancels for self-trade prevention, at the
// most. An order that meets more executes in several parts, each an event of its own.
const FillsMax = 4096

// PartFillsMin is how many resting orders a part fills at the least if another part
// follows. Both bounds belong to the journal's format: a replay ends each part where it
// ended, and takes a part of fewer fills for the whole of what the order could execute.
const PartFillsMin = 128

// PartFillsFor returns how many orders a part may fill so that its event has at most so
// many bytes, whoever trades: from PartFillsMin to FillsMax. Below some 12 KiB not even
// the least fits.
func PartFillsFor(eventBytes int) int {
	return max(PartFillsMin, min(FillsMax, (eventBytes-EventBytesMax-instructionBytesMax)/fillBytesMax(AccountDigitsMax)))
}

// partFills returns how many orders a part fills.
func (x *Index) partFills() int {
	if x.FillsMax > 0 {
		return x.FillsMax
	}
	return FillsMax
}

// replayFills returns how many orders a part meets at a replay of e: as many as it has
// filled and canceled, if that many may end a part. Before version 3 of the journal there
// were no parts, and events may have more than FillsMax.
func (x *Index) replayFills(e *Event) int {
	recorded, most := len(e.Fills)+len(e.Own), x.partFills()
	if recorded < min(most, PartFillsMin) {
		return most
	}
	if e.Rest > 0 {
		return recorded + 1 // it looked at what comes next, and stopped
	}
	return recorded
}

// Unfinished returns the order that has done a part and could execute more at once,
// 0 if there is none. It is the newest order of a crossed book, and follows from what
// rests alone. Until Continue has finished it, the book takes no Submit, Cancel, Reduce and Replace.
func (b *Book) Unfinished() OrderID {
	if b.crossed() {
		return b.newest
	}
	return 0
}

// Continue executes the next part of the unfinished order, as Submit did the first one,
// and makes o the order as it stands then. It panics if no order is unfinished.
func (b *Book) Continue(o *Order, now int64, fills []Fill) []Fill {
	return b.proceed(o, now, fills, b.index.partFills())
}

// FillBytesMax returns the most that what the first part of o does would add to its
// event (AppendEvent), beyond EventBytesMax. whole reports whether there is no other part. It looks at no more
// than FillsMax + 1 orders, and changes nothing.
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
		return bytes + fillBytesMax(len(n.account.ID)), true // most orders fill one
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

// meetBytesMax is FillBytesMax for an order that minds its own orders.
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

// PartsMax bounds what o would come to, in a time that does not depend on how many
// orders it meets: how many parts, and how many bytes the event of each has. No
// account has an id of more than accountDigits. It changes nothing.
func (b *Book) PartsMax(o *Order, accountDigits int) (parts, bytes int) {
	fills, most := b.index.partFills(), int64(b.resting[o.Side.opposite()&1])
	if o.STP != CancelOldest {
		most = min(most, int64(o.Open)) // each takes a share's smallest part, or ends it
	}
	bytes = EventBytesMax + fills*fillBytesMax(accountDigits) + o.moreBytesMax()
	return int((most + int64(fills) - 1) / int64(fills)), bytes
}
