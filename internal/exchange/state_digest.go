package exchange

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"iter"
	"slices"
	"strings"
)

// digestVersion is the start of the listing that a Digest hashes. It changes with the format of the listing.
const digestVersion = "outcry state 1\n"

// DigestListing returns the name of the listing format that Digest hashes. Digests of
// different formats must not be compared.
func DigestListing() string { return strings.TrimSpace(digestVersion) }

// Digest returns the SHA-256 of a listing of everything that affects the future: accounts, symbols, positions,
// resting orders in the order in which they would execute, the last order id, which symbols are halted, rules,
// switches, cod, and chains of amends. Two states with the same digest behave the same from now on, however they
// were reached. The digest does not cover closed orders still in memory, empty positions, and refs: memory has only
// some of the refs, and the database has the others. Digest walks the whole state and changes nothing.
func (s *State) Digest() [sha256.Size]byte {
	d := NewDigester(s.OrderID)
	instruments, _ := d.Ledger(s.Ledger, nil)
	for _, in := range instruments {
		d.Instrument(in, nil)
		for n := range d.book(in.Symbol, s.Books[in.Symbol]) {
			d.order(n)
		}
	}
	return d.Sum()
}

// Digester computes the Digest of a state in steps, for callers that cannot lock all of it at
// once: Ledger, then Instrument and Book for each instrument that Ledger returned, in that
// order, then Sum. If the state changes in between, Sum is meaningless.
//
// It builds a listing and hashes it in pieces. Strings and lists are preceded by their length,
// so that different states have different listings.
type Digester struct {
	hash   hash.Hash
	buffer []byte
	steps  int
	halted []haltedBook
	more   digestMore
}

// haltedBook is a symbol that is halted.
type haltedBook struct {
	symbol Symbol
	halt   *Halt
}

// NewDigester starts the digest of a state with the given last order id.
func NewDigester(last OrderID) *Digester {
	d := &Digester{hash: sha256.New()}
	d.buffer = append(d.buffer, digestVersion...)
	d.number(uint64(last))
	return d
}

// DigestPause lets others use the ledger. A Digester calls it every digestStep steps, and around
// long work that does not need the ledger. DigestPause calls work, unless that is nil, while the
// ledger is free. It returns false if the state has changed; the Digester then stops.
// A nil DigestPause is for a state that is not shared.
type DigestPause func(work func()) (unchanged bool)

// do calls work during a pause.
func (p DigestPause) do(work func()) bool {
	if p != nil {
		return p(work)
	}
	work()
	return true
}

// digestStep is the number of accounts or positions listed between two pauses.
const digestStep = 256

// step calls pause every digestStep calls. It returns false if pause did.
func (d *Digester) step(pause DigestPause) bool {
	d.steps++
	return pause == nil || d.steps%digestStep != 0 || pause(func() {})
}

// Sum returns the digest.
func (d *Digester) Sum() [sha256.Size]byte {
	d.halts()
	d.listMore()
	d.flush()
	return [sha256.Size]byte(d.hash.Sum(nil))
}

// digestBytes is the size of the buffer above which it is hashed.
const digestBytes = 64 << 10

// flush hashes and empties the buffer.
func (d *Digester) flush() {
	d.hash.Write(d.buffer) // never returns an error
	d.buffer = d.buffer[:0]
}

func (d *Digester) number(n uint64) { d.buffer = binary.BigEndian.AppendUint64(d.buffer, n) }

func (d *Digester) int128(values ...Int128) {
	for _, v := range values {
		d.number(uint64(v.Hi))
		d.number(v.Lo)
	}
	if len(d.buffer) >= digestBytes {
		d.flush()
	}
}

// Ledger lists the accounts of l, and returns its instruments in the order in which they
// must be listed. ok is false if pause returned false.
func (d *Digester) Ledger(l *Ledger, pause DigestPause) (instruments []*Instrument, ok bool) {
	accounts := make([]*Account, 0, l.Accounts())
	for a := range l.accounts.all() {
		if accounts = append(accounts, a); !d.step(pause) {
			return nil, false
		}
	}
	instruments = slices.Clone(l.numbered)
	if !pause.do(func() {
		accounts = sorted(accounts, func(a *Account) AccountID { return a.ID })
		instruments = sorted(instruments, func(in *Instrument) Symbol { return in.Symbol })
	}) {
		return nil, false
	}
	d.int128(Int128(l.opened))
	d.number(uint64(len(accounts)))
	for _, a := range accounts {
		d.buffer = appendString(d.buffer, a.ID)
		d.int128(Int128(a.balance), Int128(a.held))
		d.more.account(a)
		if !d.step(pause) {
			return nil, false
		}
	}
	d.number(uint64(len(instruments)))
	return instruments, true
}

// Instrument lists the positions of an instrument. It returns false if pause did.
func (d *Digester) Instrument(in *Instrument, pause DigestPause) bool {
	var owners []*Account
	for a, h := range in.positions {
		if h.shares.Sign() != 0 || h.held.Sign() != 0 {
			owners = append(owners, a)
		}
		if !d.step(pause) {
			return false
		}
	}
	if !pause.do(func() { owners = sorted(owners, func(a *Account) AccountID { return a.ID }) }) {
		return false
	}
	d.buffer = appendString(d.buffer, in.Symbol)
	d.int128(Int128(in.deposited))
	d.number(uint64(len(owners)))
	for _, a := range owners {
		h := in.positions[a]
		d.buffer = appendString(d.buffer, a.ID)
		d.int128(Int128(h.shares), Int128(h.held))
		if !d.step(pause) {
			return false
		}
	}
	return true
}

// Book returns a function that lists up to `most` more orders of a symbol's book and reports
// whether there may be more. The book must not change between two calls. stop must be
// called after the last call.
func (d *Digester) Book(sym Symbol, b *Book) (list func(most int) (more bool), stop func()) {
	next, stop := iter.Pull(d.book(sym, b))
	return func(most int) bool {
		for range most {
			n, ok := next()
			if !ok {
				return false
			}
			d.order(n)
		}
		return true
	}, stop
}

// book lists a book's properties, and returns its orders in the order in which they must be listed.
func (d *Digester) book(sym Symbol, b *Book) iter.Seq[*node] {
	if b.halt != nil {
		d.halted = append(d.halted, haltedBook{sym, b.halt})
	}
	d.more.book(sym, b)
	d.number(uint64(b.Resting()))
	return func(yield func(*node) bool) {
		for _, side := range []Side{Buy, Sell} {
			for n := range b.inOrder(side) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

func (d *Digester) order(n *node) {
	d.number(uint64(n.id))
	d.buffer = appendString(append(d.buffer, byte(n.packed)), n.account.ID)
	d.int128(Int128(n.shares.Position()), Int128(n.left.Position()), Int128(Shares(n.limit).Position()))
	if n.has(onDisconnect | amended) {
		d.more.order(n)
	}
}

// halts adds the halted symbols to the listing. It adds nothing if there are none, so that the
// digest is that of older programs without halts.
func (d *Digester) halts() {
	if len(d.halted) == 0 {
		return
	}
	d.buffer = append(d.buffer, "halted\n"...)
	d.number(uint64(len(d.halted)))
	for _, h := range d.halted {
		d.buffer = appendString(d.buffer, h.symbol)
		d.number(uint64(Seconds(h.halt.Since))) // a database keeps only the seconds
		d.buffer = appendText(d.buffer, h.halt.Reason)
	}
}

// sorted returns values sorted by name.
func sorted[V any, S ~string](values []V, name func(V) S) []V {
	// Most names differ in their first 8 bytes: with these beside the value, a comparison rarely needs to read the name
	// from elsewhere in memory.
	type named struct {
		first uint64
		name  S
		value V
	}
	all := make([]named, 0, len(values))
	for _, v := range values {
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

// digestMore collects rarely used properties of accounts, symbols and orders. They follow at the end of the
// listing, with a section for each of the three. An empty section is left out, so that the digest is that of older
// programs without these properties. Times that are only for people are rounded to seconds, like the times of
// halts.
type digestMore struct {
	accounts []AccountState
	symbols  []SymbolState
	orders   []digestOrder
	current  *Book // the book whose orders are being listed
}

// digestOrder is an order with cod or a lineage.
type digestOrder struct {
	id           OrderID
	onDisconnect bool
	lineage      Lineage
}

func (m *digestMore) account(a *Account) {
	if a.more != nil {
		m.accounts = append(m.accounts, AccountState{ID: a.ID, Rules: a.Rules(), Due: a.Due()})
	}
}

func (m *digestMore) book(sym Symbol, b *Book) {
	m.current = b
	if r := b.Rules(); r != (SymbolRules{}) {
		m.symbols = append(m.symbols, SymbolState{Symbol: sym, Rules: r, Last: b.last})
	}
}

func (m *digestMore) order(n *node) {
	m.orders = append(m.orders, digestOrder{n.id, n.has(onDisconnect), m.current.lineageOf(n)})
}

// listMore adds the sections to the listing.
func (d *Digester) listMore() {
	if m := d.more.accounts; len(m) > 0 {
		d.buffer = append(d.buffer, "accounts ruled\n"...)
		d.number(uint64(len(m)))
		for i := range m {
			d.ruled(&m[i])
		}
	}
	if m := d.more.symbols; len(m) > 0 {
		d.buffer = append(d.buffer, "symbols ruled\n"...)
		d.number(uint64(len(m)))
		for i := range m {
			s := &m[i]
			d.buffer = appendRules(appendString(d.buffer, s.Symbol), &s.Rules, 0, SymbolRuled)
			if s.Rules.Band != 0 { // otherwise the last price has no effect
				d.number(uint64(s.Last))
			}
		}
	}
	if m := d.more.orders; len(m) > 0 {
		d.buffer = append(d.buffer, "orders\n"...)
		d.number(uint64(len(m)))
		for i := range m {
			d.lineage(&m[i])
		}
	}
}

func (d *Digester) ruled(a *AccountState) {
	d.buffer = appendString(d.buffer, a.ID)
	rules := AccountRules{}
	if a.Rules != nil {
		rules = *a.Rules
	}
	if rules.Block != nil {
		rules.Block = &Halt{Since: Seconds(rules.Block.Since), Reason: rules.Block.Reason}
	}
	d.buffer = appendAccountRules(d.buffer, &rules)
	d.number(uint64(a.Due))
}

func (d *Digester) lineage(o *digestOrder) {
	l := &o.lineage
	d.number(uint64(o.id))
	if o.onDisconnect {
		d.buffer = append(d.buffer, 1)
	} else {
		d.buffer = append(d.buffer, 0)
	}
	for _, n := range []uint64{uint64(l.First), uint64(l.Replaces), uint64(l.Executed), uint64(l.Reduced),
		uint64(Seconds(l.ReducedAt))} {
		d.number(n)
	}
}
