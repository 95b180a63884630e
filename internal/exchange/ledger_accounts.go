package exchange

import (
	"hash/maphash"
	"iter"
	"strings"
)

// accountsPage is the number of accounts in one page of memory.
const accountsPage = 64

// accountTable holds the accounts of a ledger, which never move and are never
// removed, and finds them by id. Clients choose the ids, so the hash has a secret
// random seed; the seed affects nothing except how accounts are found.
type accountTable struct {
	pages   []*[accountsPage]Account
	buckets buckets
	count   int
	digits  int // length of the longest id
	seed    maphash.Seed
}

func newAccountTable() accountTable { return accountTable{seed: maphash.MakeSeed()} }

// at returns the account at a slot. Slots are numbered from 1, in the order in which
// accounts were added.
func (t *accountTable) at(i slot) *Account {
	return &t.pages[(i-1)/accountsPage][(i-1)%accountsPage]
}

func (t *accountTable) hash(id AccountID) uint32 {
	return uint32(maphash.String(t.seed, string(id)))
}

// find returns an account, or nil if it does not exist.
func (t *accountTable) find(id AccountID) *Account {
	if t.count == 0 {
		return nil
	}
	hash := t.hash(id)
	for i := *t.buckets.of(hash); i != 0; {
		a := t.at(i)
		if a.hash == hash && a.ID == id { // compare the hash first: the bytes of ID are elsewhere in memory
			return a
		}
		i = a.chain
	}
	return nil
}

// add adds an account and returns it. The id must be new.
func (t *accountTable) add(id AccountID) *Account {
	if t.count%accountsPage == 0 {
		t.pages = append(t.pages, new([accountsPage]Account))
	}
	t.count++
	t.digits = max(t.digits, len(id))
	t.buckets.reserve(t.count, t.link)
	i := slot(t.count)
	a := t.at(i)
	a.hash = t.hash(id)
	first := t.buckets.of(a.hash)
	a.ID = AccountID(strings.Clone(string(id))) // id may be a substring of a large frame
	a.chain, *first = *first, i
	return a
}

func (t *accountTable) link(i slot) (hash uint32, next *slot) {
	a := t.at(i)
	return a.hash, &a.chain
}

// all ranges over the accounts, including those added during the iteration.
func (t *accountTable) all() iter.Seq[*Account] {
	return func(yield func(*Account) bool) {
		for i := slot(1); int(i) <= t.count; i++ {
			if !yield(t.at(i)) {
				return
			}
		}
	}
}
