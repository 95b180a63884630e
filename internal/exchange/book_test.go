package exchange

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/testing/budget"
)

// naiveBook is the simplest possible order book: one list of orders, scanned from the
// oldest for every match.
type naiveBook struct{ orders []*naiveOrder }

type naiveOrder struct {
	id       OrderID
	account  AccountID
	side     Side
	limit    Price
	open     Shares
	canceled Shares
	done     []Execution
}

func (b *naiveBook) submit(id OrderID, account AccountID, side Side, shares Shares, limit Price, now int64) []Fill {
	o := &naiveOrder{id: id, account: account, side: side, limit: limit, open: shares}
	var fills []Fill
	for o.open > 0 {
		r := b.bestAgainst(o)
		if r == nil {
			break
		}
		n := min(o.open, r.open)
		o.open, r.open = o.open-n, r.open-n
		e := Execution{Shares: n, Price: r.limit, Time: now}
		o.done, r.done = append(o.done, e), append(r.done, e)
		fills = append(fills, Fill{Resting: r.id, Account: r.account, Shares: n, Price: r.limit})
	}
	b.orders = append(b.orders, o)
	return fills
}

// bestAgainst returns the order that o matches next, or nil if none crosses.
func (b *naiveBook) bestAgainst(o *naiveOrder) *naiveOrder {
	var best *naiveOrder
	for _, r := range b.orders {
		if r.open == 0 || r.side == o.side {
			continue
		}
		buy, sell := o.limit, r.limit
		if o.side == Sell {
			buy, sell = sell, buy
		}
		if buy < sell {
			continue
		}
		if best == nil || o.side == Buy && r.limit < best.limit || o.side == Sell && r.limit > best.limit {
			best = r
		}
	}
	return best
}

func (b *naiveBook) find(id OrderID) *naiveOrder {
	for _, o := range b.orders {
		if o.id == id {
			return o
		}
	}
	return nil
}

func (b *naiveBook) cancel(id OrderID, owner AccountID) RejectReason {
	o := b.find(id)
	switch {
	case o == nil:
		return UnknownOrder
	case o.account != owner:
		return ForeignOrder
	case o.canceled > 0:
		return AlreadyCanceled
	case o.open == 0:
		return AlreadyExecuted
	}
	o.canceled, o.open = o.open, 0
	return OK
}

// best returns a side's best price, or 0 if no order rests there.
func (b *naiveBook) best(side Side) Price {
	best := Price(0)
	for _, o := range b.orders {
		if o.open > 0 && o.side == side && (best == 0 || side == Buy && o.limit > best || side == Sell && o.limit < best) {
			best = o.limit
		}
	}
	return best
}

// models runs the same commands on a Book and a naiveBook and compares the results.
type models struct {
	book  *Book
	naive naiveBook
	next  OrderID
	now   int64
}

// newModels returns empty models; a chunk of price levels in the Book holds at most chunkMax blocks.
func newModels(chunkMax int) *models {
	w := &models{book: NewBook(), next: 1}
	w.book.index.FillsMax = fewFills
	w.book.sides = newSides(chunkMax)
	return w
}

func (w *models) submit(t require.TestingT, account AccountID, side Side, shares Shares, limit Price) {
	o := NewOrder(w.next, &Account{ID: account}, side, shares, limit)
	var matches []OrderID
	bytes := 0
	for n := range w.book.matches(o) {
		if matches = append(matches, n.id); len(matches) <= fewFills {
			bytes += fillBytesMax(len(n.account.ID))
		}
	}
	got, whole := w.book.FillBytesMax(o)
	require.Equal(t, bytes, got)
	require.Equal(t, len(matches) <= fewFills, whole)
	parts, bytes := w.book.PartsMax(o, len(account))
	require.LessOrEqual(t, len(matches), parts*fewFills)
	require.LessOrEqual(t, got+EventBytesMax, bytes)
	fills := w.book.Submit(o, w.now, nil)
	for w.book.Unfinished() != 0 {
		require.Equal(t, o.ID, w.book.Unfinished())
		require.NoError(t, w.book.Check())
		had := len(fills)
		fills = w.book.Continue(o, w.now, fills)
		require.LessOrEqual(t, len(fills)-had, fewFills)
	}
	want := w.naive.submit(w.next, account, side, shares, limit, w.now)
	require.True(t, slices.EqualFunc(want, fills, Fill.same), "order %d: want %v, got %v", w.next, want, fills)
	require.Len(t, matches, len(fills), "order %d", w.next)
	for i, f := range fills {
		require.Equal(t, f.Resting, matches[i], "order %d was to match it", w.next)
		w.compare(t, f.Resting)
	}
	w.compare(t, w.next)
	w.next++
	w.now++
}

func (w *models) cancel(t require.TestingT, id OrderID, owner AccountID) {
	may := w.book.MayCancel(id, owner)
	o, r := w.book.Cancel(id, owner, w.now)
	require.Equal(t, may, r, "cancel of order %d", id)
	require.Equal(t, w.naive.cancel(id, owner), r, "cancel of order %d", id)
	require.Equal(t, r == OK, o.ID != 0)
	if r == OK {
		require.Equal(t, w.now, o.CanceledAt)
	}
	w.compare(t, id)
}

// compare compares an order in both books.
func (w *models) compare(t require.TestingT, id OrderID) {
	want := w.naive.find(id)
	got, found := w.book.Find(id)
	require.Equal(t, want != nil, found, "order %d", id)
	if want != nil {
		s := got.Status()
		require.Equal(t, Status{want.open, want.canceled, got.CanceledAt, want.done, nil}, s, "order %d", id)
	}
}

func (w *models) check(t require.TestingT) {
	require.NoError(t, w.book.Check())
	require.Equal(t, w.naive.best(Buy), w.book.Best(Buy))
	require.Equal(t, w.naive.best(Sell), w.book.Best(Sell))
}

// TestBookEqualsANaiveModel lets rapid search for a short sequence of commands with different
// results, with chunks so small that they split and empty all the time.
func TestBookEqualsANaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newModels(2)
		account := rapid.SampledFrom([]AccountID{"1", "2", "3"})
		side := rapid.SampledFrom([]Side{Buy, Sell})
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				w.submit(t, account.Draw(t, "account"), side.Draw(t, "side"), Shares(rapid.IntRange(1, 30).Draw(t, "shares")),
					Price(rapid.IntRange(1, 40).Draw(t, "limit"))*
						rapid.SampledFrom([]Price{cent, cent / 2, blockTicks / 3 * cent}).Draw(t, "grain"))
			},
			"cancel": func(t *rapid.T) {
				id := OrderID(rapid.Uint64Range(0, uint64(w.next)).Draw(t, "order"))
				w.cancel(t, id, account.Draw(t, "owner"))
			},
			"": func(t *rapid.T) { w.check(t) },
		})
	})
}

// TestBookEqualsANaiveTwinWithManyLevels grows a book over several chunks, removes levels
// in the middle, and sweeps it.
func TestBookEqualsANaiveTwinWithManyLevels(t *testing.T) {
	r := testRand(t)
	w := newModels(8)
	const middle, levels, grain = 10_000, 1500, 97 // about three levels per block
	for _, i := range r.Perm(levels) {
		w.submit(t, "1", Sell, 10, Price(middle+1+i)*grain)
		w.submit(t, "2", Buy, 10, Price(middle-i)*grain)
	}
	w.check(t)
	require.Greater(t, len(w.book.side(Sell).others.chunks), 4)
	require.Greater(t, len(w.book.side(Buy).others.chunks), 4)
	for step := range budget.Of(3000) {
		switch n := r.IntN(10); {
		case n < 4:
			w.submit(t, "1", randomSide(r), Shares(1+r.IntN(20)), Price(middle-levels+r.IntN(2*levels))*grain)
		case n < 9:
			w.cancel(t, OrderID(1+r.IntN(int(w.next))), AccountID(fmt.Sprint(1+r.IntN(2))))
		default: // a new level where cancels have removed some
			w.submit(t, "2", Sell, 5, Price(middle+1+r.IntN(levels))*grain)
		}
		if step%16 == 0 {
			w.check(t)
		}
	}
	w.submit(t, "2", Buy, 1e9, (middle+levels+1)*grain) // everything
	require.Zero(t, w.book.Best(Sell))
	w.check(t)
}

func randomSide(r *rand.Rand) Side { return Buy + Side(r.IntN(2)) }

// TestLadderKeepsItsLevelsSorted adds and drops levels at prices in whole cents and between
// them, and compares with a sorted list.
func TestLadderKeepsItsLevelsSorted(t *testing.T) {
	for _, side := range []Side{Buy, Sell} {
		rapid.Check(t, func(t *rapid.T) {
			l := newLadder(side, rapid.IntRange(1, 5).Draw(t, "chunkMax"))
			there := map[Price]slot{}
			for range rapid.IntRange(1, 200).Draw(t, "steps") {
				p := Price(rapid.IntRange(1, 200).Draw(t, "price"))
				p *= rapid.SampledFrom([]Price{1, blockTicks / 3, cent, blockTicks / 3 * cent}).Draw(t, "grain")
				if at, is := there[p]; is && rapid.Bool().Draw(t, "drop") {
					*l.level(at) = level{}
					l.drop(at)
					delete(there, p)
				} else {
					got, lv := l.at(p)
					require.True(t, !is || at == got, "level %d moved", p)
					require.Same(t, l.level(got), lv)
					there[p], *lv = got, level{oldest: slot(p), last: slot(p)}
				}
				requireLadder(t, &l, there)
			}
		})
	}
}

// TestLadderKeepsItsLevelsSortedWhileBlocksComeAndGo repeats TestLadderKeepsItsLevelsSorted for longer, with so
// many blocks and stretches that more become empty than are kept.
func TestLadderKeepsItsLevelsSortedWhileBlocksComeAndGo(t *testing.T) {
	r := testRand(t)
	l := newLadder(Sell, 4)
	there := map[Price]slot{}
	for step := range 40_000 {
		p := Price(1+r.IntN(8_000)) * (blockTicks / 8) * cent
		if at, is := there[p]; is {
			*l.level(at) = level{}
			l.drop(at)
			delete(there, p)
		} else if len(there) < 1500 || step%16 == 0 {
			at, lv := l.at(p)
			there[p], *lv = at, level{1, 1}
		}
		if step%2_000 == 0 {
			requireLadder(t, &l, there)
		}
	}
	requireLadder(t, &l, there)
}

func requireLadder(t require.TestingT, l *ladder, there map[Price]slot) {
	want := slices.Sorted(maps.Keys(there))
	if l.up > 0 {
		slices.Reverse(want)
	}
	require.NoError(t, l.check())
	require.Len(t, there, l.levels)
	for p, at := range l.all() {
		require.Equal(t, want[0], p)
		require.Equal(t, there[p], at)
		want = want[1:]
	}
	require.Empty(t, want)
}

func TestLadderPanicsWhenALevelIsDroppedThatIsNotEmptyOrNotInUse(t *testing.T) {
	b := NewBook()
	b.Submit(NewOrder(1, &Account{ID: "1"}, Buy, 10, 5), 0, nil)
	require.Panics(t, func() { b.side(Buy).drop(b.side(Buy).bestSlot) })
	require.Panics(t, func() { b.side(Buy).drop(b.side(Buy).bestSlot + 1) })
	require.NoError(t, b.Check())
}

func TestAllStopsWhenToldTo(t *testing.T) {
	b := NewBook()
	for i := range 4 {
		b.Submit(NewOrder(OrderID(i+1), &Account{ID: "1"}, Sell, 10, Price(i+5)), 0, nil)
	}
	var seen []Price
	for p := range b.side(Sell).all() {
		if seen = append(seen, p); len(seen) == 3 {
			break
		}
	}
	require.Equal(t, []Price{5, 6, 7}, seen)
}

// TestLaddersKeepLittleThatIsEmpty adds a level in each of many stretches or blocks, and drops them all.
func TestLaddersKeepLittleThatIsEmpty(t *testing.T) {
	for _, apart := range []int{stretchTicks, blockTicks} {
		l := newLadder(Sell, ladderChunkMax)
		for range 3 {
			there := map[Price]slot{}
			for i := range 3000 {
				p := Price(1+i*apart) * cent
				at, lv := l.at(p)
				there[p], *lv = at, level{1, 1}
			}
			requireLadder(t, &l, there)
			require.LessOrEqual(t, len(l.stretches), 1+3000+idleMax)
			for _, at := range there {
				*l.level(at) = level{}
				l.drop(at)
			}
			requireLadder(t, &l, nil)
			stretches, blocks := 0, 0
			for _, s := range l.stretches {
				if s != nil {
					stretches++
				}
			}
			for _, chunk := range l.cents.chunks {
				blocks += len(chunk)
			}
			require.Equal(t, l.idle, stretches)
			require.LessOrEqual(t, stretches, idleMax)
			require.Equal(t, vacantMax, blocks)
		}
	}
}
