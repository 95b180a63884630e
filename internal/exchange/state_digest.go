package exchange

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"iter"
	"maps"
	"slices"
	"strings"
)

// digestVersion begins what a Digest is of. It changes with the listing.
const digestVersion = "outcry state 1\n"

// DigestListing names the listing that Digest is of. Digests of different listings
// say nothing about each other.
func DigestListing() string { return strings.TrimSpace(digestVersion) }

// Digest returns the SHA-256 of a listing of all that will be of consequence:
// accounts, symbols, positions, resting orders in the order in which they would
// execute, the last order id, and which symbols are halted. Two states with the same digest go on alike,
// however they came about: what closed orders memory still holds does not count,
// nor does a position of no shares. Refs do not count
// either: memory has few of them, and the database the others. It walks everything and changes nothing.
func (s *State) Digest() [sha256.Size]byte {
	d := digester{hash: sha256.New()}
	d.buffer = append(d.buffer, digestVersion...)
	d.number(uint64(s.OrderID))
	d.ledger(s.Ledger)
	for _, in := range sorted(maps.Values(s.Ledger.instruments), len(s.Ledger.instruments),
		func(in *Instrument) Symbol { return in.Symbol }) {
		d.instrument(in)
		d.book(s.Books[in.Symbol])
	}
	d.halts(s)
	d.flush()
	return [sha256.Size]byte(d.hash.Sum(nil))
}

// digester gathers a listing and hashes it piece by piece. Every string carries
// its length and every list its number of entries, so that no two listings are
// the same bytes.
type digester struct {
	hash   hash.Hash
	buffer []byte
}

// digestBytes is how much is hashed at once.
const digestBytes = 64 << 10

// flush hashes what has gathered.
func (d *digester) flush() {
	d.hash.Write(d.buffer) // never fails
	d.buffer = d.buffer[:0]
}

func (d *digester) number(n uint64) { d.buffer = binary.BigEndian.AppendUint64(d.buffer, n) }

func (d *digester) int128(values ...Int128) {
	for _, v := range values {
		d.number(uint64(v.Hi))
		d.number(v.Lo)
	}
	if len(d.buffer) >= digestBytes {
		d.flush()
	}
}

func (d *digester) ledger(l *Ledger) {
	d.int128(Int128(l.opened))
	d.number(uint64(l.Accounts()))
	for _, a := range sorted(l.accounts.all(), l.Accounts(), func(a *Account) AccountID { return a.ID }) {
		d.buffer = appendString(d.buffer, a.ID)
		d.int128(Int128(a.balance), Int128(a.held))
	}
	d.number(uint64(len(l.instruments)))
}

func (d *digester) instrument(in *Instrument) {
	d.buffer = appendString(d.buffer, in.Symbol)
	d.int128(Int128(in.deposited))
	owners := make([]*Account, 0, len(in.positions))
	for a, h := range in.positions {
		if h.shares.Sign() != 0 || h.held.Sign() != 0 {
			owners = append(owners, a)
		}
	}
	d.number(uint64(len(owners)))
	for _, a := range sorted(slices.Values(owners), len(owners), func(a *Account) AccountID { return a.ID }) {
		h := in.positions[a]
		d.buffer = appendString(d.buffer, a.ID)
		d.int128(Int128(h.shares), Int128(h.held))
	}
}

func (d *digester) book(b *Book) {
	d.number(uint64(b.Resting()))
	for _, side := range []Side{Buy, Sell} {
		for n := range b.inOrder(side) {
			d.number(uint64(n.id))
			d.buffer = appendString(append(d.buffer, byte(n.packed)), n.account.ID)
			d.int128(Int128(n.shares.Position()), Int128(n.left.Position()), Int128(Shares(n.limit).Position()))
		}
	}
}

// halts ends the listing with the symbols that are halted. Where there is none it
// adds nothing: so the digest is the one of a program that knew no halts.
func (d *digester) halts(s *State) {
	var halted []Symbol
	for sym, b := range s.Books {
		if b.halt != nil {
			halted = append(halted, sym)
		}
	}
	if len(halted) == 0 {
		return
	}
	slices.Sort(halted)
	d.buffer = append(d.buffer, "halted\n"...)
	d.number(uint64(len(halted)))
	for _, sym := range halted {
		h := s.Books[sym].halt
		d.buffer = appendString(d.buffer, sym)
		d.number(uint64(Seconds(h.Since))) // of which a database keeps no more
		d.buffer = appendText(d.buffer, h.Reason)
	}
}

// sorted returns n values in the order of the strings that name them.
func sorted[V any, S ~string](values iter.Seq[V], n int, name func(V) S) []V {
	// Most names differ in their first bytes: those beside the value keep the
	// comparison out of memory that is elsewhere.
	type named struct {
		first uint64
		name  S
		value V
	}
	all := make([]named, 0, n)
	for v := range values {
		var first [8]byte
		copy(first[:], name(v))
		all = append(all, named{binary.BigEndian.Uint64(first[:]), name(v), v})
	}
	slices.SortFunc(all, func(a, b named) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return cmp.Compare(a.name, b.name)
	})
	inOrder := make([]V, len(all))
	for i := range all {
		inOrder[i] = all[i].value
	}
	return inOrder
}
