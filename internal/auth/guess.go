package auth

import (
	"context"
	"hash/maphash"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// A wrong token is answered at once guessFree times in a row for one address, and
// after that once each guessEvery. What comes faster waits for guessWait, as long as
// no more than guessersMax do so already.
const (
	guessFree   = 10
	guessEvery  = time.Second
	guessWait   = time.Second
	guessersMax = 64
	guessSlots  = 4096
)

// guesses slows down clients that show wrong tokens. A right token is never held up:
// others that share an address, behind a proxy or a router, could otherwise be locked
// out by others. That is no risk: no rate of guesses finds 256 bits. It keeps
// guesses from costing connections, and log lines from flooding.
//
// Addresses share slots, so that memory is bounded whatever comes. Its methods may be
// called from any goroutine.
type guesses struct {
	seed    maphash.Seed
	begun   time.Time
	slots   [guessSlots]atomic.Int64 // when the slot has its whole allowance again, since begun
	waiting chan struct{}            // holds a value for each who waits
}

func newGuesses() *guesses {
	return &guesses{seed: maphash.MakeSeed(), begun: time.Now(), waiting: make(chan struct{}, guessersMax)}
}

// spend takes one guess from an address's allowance, and reports whether there was one.
func (g *guesses) spend(address string) bool {
	slot := &g.slots[maphash.String(g.seed, networkOf(address))%guessSlots]
	now := int64(time.Since(g.begun))
	for {
		before := slot.Load()
		after := max(before, now) + int64(guessEvery)
		if after-now > guessFree*int64(guessEvery) {
			return false
		}
		if slot.CompareAndSwap(before, after) {
			return true
		}
	}
}

// networkOf returns who an address belongs to: with IPv6 anyone who has one has a whole
// network of 64 bits.
func networkOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap()
	if ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// Wrong counts a wrong token from an address, host and port. It returns true at once
// while the address has few of them, and after a wait if there are many. It
// returns false, without a wait, where too many wait already, and when ctx ends: then
// the answer is not worth giving.
func (t *Tokens) Wrong(ctx context.Context, address string) (answer, slowed bool) {
	if t.guesses.spend(address) {
		return true, false
	}
	select {
	case t.guesses.waiting <- struct{}{}:
		defer func() { <-t.guesses.waiting }()
	default:
		return false, true
	}
	timer := time.NewTimer(guessWait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, true
	case <-ctx.Done():
		return false, true
	}
}
