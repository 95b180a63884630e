package auth

import (
	"context"
	"hash/maphash"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// For each address, guessFree wrong tokens in a row are answered at once, and after that one in each
// guessEvery. Further ones are answered after guessWait, at most guessersMax at a time; the rest are not
// answered.
const (
	guessFree   = 10
	guessEvery  = time.Second
	guessWait   = time.Second
	guessersMax = 64
	guessSlots  = 4096
)

// guesses slows down clients that present wrong tokens. A valid token is never delayed, because clients
// behind the same proxy or router share an address and could otherwise lock each other out. This is safe: no
// rate of guesses finds 256 random bits. The delay only keeps wrong tokens from using up connections and
// flooding the log.
//
// Addresses share slots, so that memory is bounded. Its methods may be called from any goroutine.
type guesses struct {
	seed    maphash.Seed
	begun   time.Time
	slots   [guessSlots]atomic.Int64 // when the slot's allowance is full, in nanoseconds since begun
	waiting chan struct{}            // holds one value for each waiting client
}

func newGuesses() *guesses {
	return &guesses{seed: maphash.MakeSeed(), begun: time.Now(), waiting: make(chan struct{}, guessersMax)}
}

// spend uses one guess of an address's allowance, and reports whether there was one.
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

// networkOf returns the network that counts as one client: an IPv4 address, or the /64 network of an IPv6
// address.
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

// Wrong counts a wrong token from an address with host and port. answer reports whether to send an error. It
// returns true at once while the address has sent few wrong tokens, and true after guessWait if it has sent
// many. It returns false at once if guessersMax clients already wait, and false when ctx ends. slowed reports
// whether the address was over its allowance.
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
