package exchange

import (
	"fmt"
	"slices"
)

// check walks all levels and returns an error that names the first violated invariant.
func (l *ladder) check() error {
	levels, idle := 0, 0
	for _, r := range []*run{&l.cents, &l.others} {
		n, without, err := l.checkRun(r)
		if err != nil {
			return err
		}
		levels, idle = levels+n, idle+without
	}
	if err := l.checkHints(); err != nil {
		return err
	}
	best := &l.cents
	if l.others.bestKey > best.bestKey {
		best = &l.others
	}
	if levels != l.levels || idle != l.idle || !l.bestIsThatOf(best) {
		return fmt.Errorf("%d levels and %d idle stretches, counted %d and %d; the best level has key %d, recorded as %d",
			levels, idle, l.levels, l.idle, best.bestKey, l.bestKey)
	}
	return nil
}

// checkRun checks the blocks and chunks of a run, and counts its levels in use and its
// stretches without any.
func (l *ladder) checkRun(r *run) (levels, idle int, err error) {
	worse, best, bestKey := (*block)(nil), slot(0), int64(noKey)
	for _, chunk := range r.chunks {
		if len(chunk) == 0 || len(chunk) > r.chunkMax {
			return 0, 0, fmt.Errorf("a chunk of %d blocks", len(chunk))
		}
		for _, g := range chunk {
			b := g.block
			if g.key != b.first || !l.belongs(b, r) || !b.follows(worse) || !l.mayBeEmpty(b) {
				return 0, 0, fmt.Errorf("the block of key %d does not belong where it is", b.first)
			}
			worse = b
			n, without, err := l.checkBlock(b)
			if err != nil {
				return 0, 0, err
			}
			levels, idle = levels+n, idle+without
			if n > 0 {
				bestKey, best = b.last(b.used)
			}
		}
	}
	if worse != nil && worse.better != nil || r.best != best || r.bestKey != bestKey {
		return 0, 0, fmt.Errorf("the best level has key %d, recorded as %d", bestKey, r.bestKey)
	}
	return levels, idle, nil
}

// belongs reports whether b's first key is valid, and r is the run for b's tick.
func (l *ladder) belongs(b *block, r *run) bool {
	return b.first >= 0 && b.first%(b.tick*blockTicks) == 0 && l.run(b) == r
}

// follows reports whether b and worse are linked as neighbours; worse is nil for the first block.
func (b *block) follows(worse *block) bool {
	return b.worse == worse && (worse == nil || worse.better == b && worse.first < b.first)
}

// mayBeEmpty reports whether b has a level in use, or is listed as vacant.
func (l *ladder) mayBeEmpty(b *block) bool { return b.used != 0 || slices.Contains(l.vacant, b) }

// checkHints checks that no hint keeps memory alive that is no longer the ladder's.
func (l *ladder) checkHints() error {
	if l.hints == nil {
		return nil
	}
	for _, b := range l.hints {
		if b != nil && b.removed() && !b.alone() {
			return fmt.Errorf("a removed block keeps others in memory")
		}
	}
	return nil
}

// removed reports whether b was removed from its run.
func (b *block) removed() bool { return b.first < 0 }

// alone reports whether b has no links to other blocks and no stretches.
func (b *block) alone() bool {
	return b.worse == nil && b.better == nil && b.stretches == [blockStretches]*stretch{}
}

// bestIsThatOf reports whether bestKey, bestSlot and best of the ladder belong to the best level of r; best must be
// nil if r has no level in use.
func (l *ladder) bestIsThatOf(r *run) bool {
	if r.bestKey != l.bestKey || r.best != l.bestSlot {
		return false
	}
	if r.best == 0 {
		return l.best == nil
	}
	return l.best == l.level(r.best)
}

// checkBlock checks the stretches and levels of a block, and counts its levels in use and
// its stretches without any.
func (l *ladder) checkBlock(b *block) (levels, idle int, err error) {
	for i, s := range b.stretches {
		first := b.first + int64(i)*stretchTicks*b.tick
		if !b.usedBitMatches(i) || s != nil && !l.isAt(s, b, i) {
			return 0, 0, fmt.Errorf("the stretch of key %d does not match its block", first)
		}
		if s == nil {
			continue
		}
		if s.used == 0 {
			idle++
		}
		for place := range s.levels {
			key := first + int64(place)*b.tick
			if s.uses(place) != (s.levels[place].oldest != 0) || s.uses(place) && !b.fitsKey(key) {
				return 0, 0, fmt.Errorf("level %s is empty or in the wrong place", l.price(key))
			}
			if s.uses(place) {
				levels++
			}
		}
	}
	return levels, idle, nil
}

// usedBitMatches reports whether b's bit for its i-th stretch is set exactly if the stretch has a level in use.
func (b *block) usedBitMatches(i int) bool {
	s := b.stretches[i]
	return (s != nil && s.used != 0) == (b.used>>i&1 == 1)
}

// isAt reports whether s is the i-th stretch of b by its own fields, and its slot leads to it.
func (l *ladder) isAt(s *stretch, b *block, i int) bool {
	return s.block == b && int(s.place) == i && s.slot != 0 && l.stretches[s.slot] == s
}

// uses reports whether the level at a place of s is in use.
func (s *stretch) uses(place int) bool { return s.used>>place&1 == 1 }

// fitsKey reports whether a level of this key belongs in a block with b's tick: whole cents have their own blocks.
func (b *block) fitsKey(key int64) bool { return b.tick == cent || key%cent != 0 }
