package exchange

import "iter"

// Refs holds the refs that were used lately, and those that a command is about to use.
// It is a sequence of generations: uses go to the last one, and the first one is dropped
// once a database has what is in it. So nothing has to be known of the age of a single
// ref. Not safe for concurrent use: the engine guards it like the Ledger.
type Refs struct {
	generations []generation // those before the last are sealed
	first       uint64       // number of generations[0]; they are numbered from 0
	claims      map[refKey]struct{}
}

// refKey is a RefKey of an account that exists.
type refKey struct {
	account *Account
	ref     Ref
}

// generation holds refs that were used one after another.
type generation struct {
	uses map[refKey]RefUse
	seq  uint64 // of the last record that is in it, or a later one; 0 while it is not sealed
}

// NewRefs returns one without refs.
func NewRefs() *Refs {
	return &Refs{generations: []generation{{uses: make(map[refKey]RefUse)}}, claims: make(map[refKey]struct{})}
}

// Find returns what a ref of an account was used for. found is false where it was not
// used, or is not in memory any more.
func (x *Refs) Find(a *Account, ref Ref) (use RefUse, found bool) { return x.FindSince(a, ref, 0) }

// FindSince is Find in a generation and in later ones alone, which costs less.
func (x *Refs) FindSince(a *Account, ref Ref, number uint64) (use RefUse, found bool) {
	key := refKey{a, ref}
	for i := len(x.generations) - 1; i >= 0 && x.first+uint64(i) >= number && !found; i-- {
		use, found = x.generations[i].uses[key]
	}
	return use, found
}

// Claim keeps a ref for one command that is about to use it. It returns false where
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

// Add notes that a ref, which Find does not find, was used, and ends its claim. It is
// called after the record has its place in the journal.
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

// First and Last return the numbers of the oldest generation in memory and of the one
// that refs are added to.
func (x *Refs) First() uint64 { return x.first }

// Last is described with First.
func (x *Refs) Last() uint64 { return x.first + uint64(len(x.generations)) - 1 }

// Added returns how many refs are in the last generation.
func (x *Refs) Added() int { return len(x.generations[len(x.generations)-1].uses) }

// Seal begins a new generation. seq is that of the last record which the sealed one
// has, or of a later one.
func (x *Refs) Seal(seq uint64) {
	x.generations[len(x.generations)-1].seq = seq
	x.generations = append(x.generations, generation{uses: make(map[refKey]RefUse)})
}

// Sealed returns the refs of a sealed generation that is in memory, and its seq. The
// refs may be ranged over while others use x: they change no more.
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

// Drop forgets the oldest generation, which is sealed.
func (x *Refs) Drop() {
	if len(x.generations) == 1 {
		panic("exchange: the last generation of refs dropped")
	}
	x.generations[0] = generation{}
	x.generations = x.generations[1:]
	x.first++
}
