package exchange

import "iter"

// Refs has the recently used refs, and those that a command is about to use. It is a sequence of generations: new refs
// go into the last one, and the first one is dropped once a database has all of its refs, so that the age of a single
// ref need not be stored. Not safe for concurrent use: the engine guards it like the Ledger.
type Refs struct {
	generations []generation // all except the last are sealed
	first       uint64       // number of generations[0]; they are numbered from 0
	claims      map[refKey]struct{}
}

// refKey is a RefKey of an existing account.
type refKey struct {
	account *Account
	ref     Ref
}

// generation is a set of refs that were used during one period.
type generation struct {
	uses map[refKey]RefUse
	seq  uint64 // seq of its last record, or a later one; 0 until the generation is sealed
}

// NewRefs returns an empty Refs.
func NewRefs() *Refs {
	return &Refs{generations: []generation{{uses: make(map[refKey]RefUse)}}, claims: make(map[refKey]struct{})}
}

// Find returns what a ref of an account was used for. found is false if it was not
// used, or is no longer in memory.
func (x *Refs) Find(a *Account, ref Ref) (use RefUse, found bool) { return x.FindSince(a, ref, 0) }

// FindSince is Find in the generation with this number and later ones only, which costs less.
func (x *Refs) FindSince(a *Account, ref Ref, number uint64) (use RefUse, found bool) {
	key := refKey{a, ref}
	for i := len(x.generations) - 1; i >= 0 && x.first+uint64(i) >= number && !found; i-- {
		use, found = x.generations[i].uses[key]
	}
	return use, found
}

// Claim reserves a ref for a command that is about to use it. It returns false if
// another command has claimed it. Every claim is followed by Add or Withdraw.
func (x *Refs) Claim(a *Account, ref Ref) bool {
	key := refKey{a, ref}
	if _, claimed := x.claims[key]; claimed {
		return false
	}
	x.claims[key] = struct{}{}
	return true
}

// Withdraw ends a claim: the ref was not used after all.
func (x *Refs) Withdraw(a *Account, ref Ref) { delete(x.claims, refKey{a, ref}) }

// Add records that a ref was used, and ends its claim. Find must not find the ref. Add is
// called once the record has its place in the journal.
func (x *Refs) Add(a *Account, ref Ref, use RefUse) {
	key := refKey{a, ref}
	if len(x.claims) > 0 {
		delete(x.claims, key)
	}
	x.generations[len(x.generations)-1].uses[key] = use
}

// Len returns how many refs are in memory.
func (x *Refs) Len() int {
	n := 0
	for i := range x.generations {
		n += len(x.generations[i].uses)
	}
	return n
}

// First returns the number of the oldest generation in memory.
func (x *Refs) First() uint64 { return x.first }

// Last returns the number of the last generation, to which refs are added.
func (x *Refs) Last() uint64 { return x.first + uint64(len(x.generations)) - 1 }

// Added returns the number of refs in the last generation.
func (x *Refs) Added() int { return len(x.generations[len(x.generations)-1].uses) }

// Seal ends the last generation and starts a new one. seq is the last record of the
// sealed generation, or a later one.
func (x *Refs) Seal(seq uint64) {
	x.generations[len(x.generations)-1].seq = seq
	x.generations = append(x.generations, generation{uses: make(map[refKey]RefUse)})
}

// Sealed returns the refs of a sealed generation that is in memory, and its seq. The
// refs may be ranged over concurrently with other calls, because they no longer change.
func (x *Refs) Sealed(number uint64) (keys iter.Seq[RefKey], seq uint64) {
	g := x.generations[number-x.first]
	return func(yield func(RefKey) bool) {
		for key := range g.uses {
			if !yield(RefKey{key.account.ID, key.ref}) {
				return
			}
		}
	}, g.seq
}

// Drop forgets the oldest generation, which must be sealed.
func (x *Refs) Drop() {
	if len(x.generations) == 1 {
		panic("exchange: the last generation of refs dropped")
	}
	x.generations[0] = generation{}
	x.generations = x.generations[1:]
	x.first++
}
