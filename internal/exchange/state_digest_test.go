package exchange

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatesThatGoOnAlikeHaveOneDigest compares the digest of a session's state with those of
// its replay, which forgets closed orders, and of the state restored from its snapshot.
func TestStatesThatGoOnAlikeHaveOneDigest(t *testing.T) {
	s := newRandomSession(testRand(t))
	s.run(2000)
	again := NewState()
	for i := range s.events {
		replay(t, again, s.events[i:i+1])
		again.ForgetClosed(&s.events[i])
	}
	restored, err := snapshotOf(s.State, s.events).Restore()
	require.NoError(t, err)
	require.Equal(t, s.Digest(), again.Digest())
	require.Equal(t, s.Digest(), restored.Digest())
	for _, book := range again.Books {
		for o := range book.Orders() {
			require.NotZero(t, o.Open, "order %d is closed and was not forgotten", o.ID)
		}
	}
}

func TestAnyDifferenceChangesTheDigest(t *testing.T) {
	state := func() *State {
		s := NewState()
		replay(t, s, filled(t))
		return s
	}
	seen := map[string]string{fmt.Sprintf("%x", state().Digest()): "as it was"}
	require.Len(t, seen, 1)
	for name, change := range map[string]func(s *State){
		"a balance":          func(s *State) { a := s.Ledger.Account("1"); a.balance = a.balance.Add(Cash{Lo: 1}) },
		"a hold":             func(s *State) { a := s.Ledger.Account("1"); a.held = a.held.Add(Cash{Lo: 1}) },
		"one more account":   func(s *State) { s.Ledger.Open("3", Cash{}) },
		"the opened total":   func(s *State) { s.Ledger.opened = s.Ledger.opened.Add(Cash{Lo: 1}) },
		"one more symbol":    func(s *State) { s.List("A") },
		"the placed total":   func(s *State) { s.Ledger.instruments["SPY"].deposited = Position{Lo: 1} },
		"a position":         func(s *State) { s.Ledger.instruments["SPY"].positions[s.Ledger.Account("2")].shares.Lo++ },
		"a position's hold":  func(s *State) { s.Ledger.instruments["SPY"].positions[s.Ledger.Account("2")].held.Lo++ },
		"an order's shares":  func(s *State) { s.Books["SPY"].node(4).shares++ },
		"an order's open":    func(s *State) { s.Books["SPY"].node(4).left-- },
		"an order's limit":   func(s *State) { s.Books["SPY"].node(4).limit++ },
		"an order's account": func(s *State) { s.Books["SPY"].node(4).account = s.Ledger.Account("1") },
		"an order gone":      func(s *State) { s.Books["SPY"].Cancel(4, "2", 1) },
		"the last order":     func(s *State) { s.OrderID++ },
		"a halt":             func(s *State) { s.Books["SPY"].Halt(&Halt{}) },
		"a halt's time":      func(s *State) { s.Books["SPY"].Halt(&Halt{Since: Second}) },
		"a halt's reason":    func(s *State) { s.Books["SPY"].Halt(&Halt{Reason: "x"}) },
		"a halt elsewhere":   func(s *State) { s.List("A").Halt(&Halt{}) },
	} {
		s := state()
		change(s)
		digest := fmt.Sprintf("%x", s.Digest())
		require.NotContains(t, seen, digest, name)
		seen[digest] = name
	}
}

// TestTheDigestIsFixed pins the listing, because digests in old logs are compared with new ones.
func TestTheDigestIsFixed(t *testing.T) {
	s := NewState()
	replay(t, s, filled(t))
	require.Equal(t, "e4f095e0e70fb2f7d0d038724169485fcbbe99b9572f94707fa25ebc66190d8a", fmt.Sprintf("%x", s.Digest()))
}

func TestPositionsOfNothingDoNotCount(t *testing.T) {
	s := NewState()
	replay(t, s, filled(t))
	before := s.Digest()
	s.Ledger.Open("3", Cash{})
	with := s.Digest()
	s.Ledger.instruments["SPY"].positionOf(s.Ledger.Account("3"))
	require.Equal(t, with, s.Digest())
	require.NotEqual(t, before, with)
}

func BenchmarkDigest(b *testing.B) {
	s := NewState()
	for i := range 1_000_000 {
		s.Ledger.Open(AccountID(fmt.Sprint(i)), Notional(1e9, Price(i)))
	}
	for b.Loop() {
		s.Digest()
	}
}

// TestADigestHasTimesInWholeSeconds checks halts, whose times a database stores in seconds.
func TestADigestHasTimesInWholeSeconds(t *testing.T) {
	a, b := NewState(), NewState()
	a.List("A").Halt(&Halt{Since: 7 * Second})
	b.List("A").Halt(&Halt{Since: 7*Second + 999_999_999})
	require.Equal(t, a.Digest(), b.Digest())
}
