package exchange

// FillsMax is how many resting orders a part of an order fills, at the most. An order
// that meets more executes in several parts, each an event of its own.
const FillsMax = 4096

// PartFillsMin is how many resting orders a part fills at the least if another part
// follows. Both bounds belong to the journal's format: a replay ends each part where it
// ended, and takes a part of fewer fills for the whole of what the order could execute.
const PartFillsMin = 128

// PartFillsFor returns how many orders a part may fill so that its event has at most so
// many bytes, whoever trades: from PartFillsMin to FillsMax. Below some 12 KiB not even
// the least fits.
func PartFillsFor(eventBytes int) int {
	return max(PartFillsMin, min(FillsMax, (eventBytes-EventBytesMax)/fillBytesMax(AccountDigitsMax)))
}

// partFills returns how many orders a part fills.
func (x *Index) partFills() int {
	if x.FillsMax > 0 {
		return x.FillsMax
	}
	return FillsMax
}

// replayFills returns how many orders a part fills at a replay, where its event has so
// many fills: those, if that many may end a part. Before version 3 of the journal there
// were no parts, and events may have more than FillsMax.
func (x *Index) replayFills(recorded int) int {
	most := x.partFills()
	if recorded >= min(most, PartFillsMin) {
		return recorded
	}
	return most
}

// Unfinished returns the order that has executed a part and could execute more at once,
// 0 if there is none. It is the newest order of a crossed book, and follows from what
// rests alone. Until Continue has finished it, the book takes no Submit and no Cancel.
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

// FillBytesMax returns the most that the fills of the first part of o would add to its
// event (AppendEvent). whole reports whether there is no other part. It looks at no more
// than FillsMax + 1 orders, and changes nothing.
func (b *Book) FillBytesMax(o *Order) (bytes int, whole bool) {
	opposite := b.side(o.Side.opposite())
	if opposite.bestKey < opposite.key(o.Limit) {
		return 0, true
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

// PartsMax bounds what o would come to, in a time that does not depend on how many
// orders it meets: how many parts, and how many bytes the event of each has. No
// account has an id of more than accountDigits. It changes nothing.
func (b *Book) PartsMax(o *Order, accountDigits int) (parts, bytes int) {
	fills, most := b.index.partFills(), int64(b.resting[o.Side.opposite()&1])
	most = min(most, int64(o.Open)) // each takes a share's smallest part
	return int((most + int64(fills) - 1) / int64(fills)), EventBytesMax + fills*fillBytesMax(accountDigits)
}
