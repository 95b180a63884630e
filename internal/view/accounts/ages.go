package accounts

// ages has an entry for each fill, the number of its account in View.list, from the oldest fill to the newest. The
// oldest entries of an account, as many as accountFills.gone says, are those of fills that the account has
// displaced itself. They are skipped when they are the oldest of all. If they become too many, a pass over all entries
// drops them, some for each new fill.
//
// During a pass, accountFills.goneBefore counts the account's entries that were gone when it began and that it has not
// reached yet; gone counts later ones, which are newer. So an account that has entries before next has a goneBefore
// of 0.
//
// Entry n is at ring[n%len(ring)]. The entries are those from first to kept, and those from next to end; the pass has
// dropped what was between them. Without a pass, kept and next are equal to first.
type ages struct {
	ring                   []uint32
	first, kept, next, end uint64
	gone                   int // entries that are gone, without those of the present pass
	passing                bool
	passes                 uint32
}

// passLen is how many entries a pass checks for each new fill. agesMin is the length of the smallest ring.
const (
	passLen = 4
	agesMin = 1024
)

// at returns entry n.
func (g *ages) at(n uint64) *uint32 { return &g.ring[n&uint64(len(g.ring)-1)] }

// push adds the entry of the newest fill. accounts is View.list.
func (g *ages) push(number uint32, accounts []*account) {
	length := g.end - g.first
	if length == uint64(len(g.ring)) {
		g.grow()
	}
	*g.at(g.end) = number
	g.end++
	if !g.passing {
		if length < agesMin || uint64(g.gone) < length/2 {
			return
		}
		g.passing, g.passes, g.gone = true, g.passes+1, 0
	}
	for n := 0; n < passLen && g.next < g.end; n, g.next = n+1, g.next+1 {
		number := *g.at(g.next)
		if a := g.begin(&accounts[number].fills); a.goneBefore > 0 {
			a.goneBefore--
			continue
		}
		*g.at(g.kept) = number
		g.kept++
	}
	if g.next == g.end {
		g.end, g.kept, g.next, g.passing = g.kept, g.first, g.first, false
	}
}

// begin returns a, after the present pass has begun for it.
func (g *ages) begin(a *accountFills) *accountFills {
	if a.pass != g.passes {
		a.pass, a.goneBefore, a.gone = g.passes, a.gone, 0
	}
	return a
}

// forget records that an account has displaced its oldest fill.
func (g *ages) forget(a *accountFills) {
	if g.passing {
		g.begin(a)
	}
	a.gone++
	g.gone++
}

// pop removes the entry of the oldest fill of all, and returns the fills of its account. There must be one.
func (g *ages) pop(accounts []*account) *accountFills {
	for {
		if g.passing && g.first == g.kept {
			g.first, g.kept = g.next, g.next
		}
		a := &accounts[*g.at(g.first)].fills
		if g.passing {
			g.begin(a)
		}
		unreached := g.passing && g.first == g.next
		if g.first++; unreached || !g.passing {
			g.kept, g.next = g.first, g.first
		}
		switch {
		case a.goneBefore > 0 && unreached:
			a.goneBefore--
		case a.gone > 0:
			a.gone--
			g.gone--
		default:
			return a
		}
	}
}

// grow doubles the ring.
func (g *ages) grow() {
	larger := ages{ring: make([]uint32, max(agesMin, 2*len(g.ring)))}
	for n := g.first; n < g.end; n++ {
		*larger.at(n) = *g.at(n)
	}
	g.ring = larger.ring
}
