package exchange

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// snapshotOf returns the snapshot that a database would hold after some events.
func snapshotOf(s *State, events []Event) *Snapshot {
	snap := &Snapshot{OrderID: s.OrderID}
	for _, e := range events {
		if snap.Time = max(snap.Time, e.Time); e.Kind == AccountOpened {
			free, held := s.Ledger.Account(e.Account).Balance()
			snap.Accounts = append(snap.Accounts, AccountState{ID: e.Account, Opened: e.Balance, Balance: free, Held: held,
				Rules: s.Ledger.Account(e.Account).Rules(), Due: s.Ledger.Account(e.Account).Due()})
		}
	}
	for _, sym := range slices.Sorted(maps.Keys(s.Books)) {
		in := s.Ledger.Instrument(sym)
		snap.Symbols = append(snap.Symbols, SymbolState{Symbol: sym, Deposited: in.Deposited(), Halt: s.Books[sym].Halted(),
			Rules: s.Books[sym].Rules(), Last: s.Books[sym].Last()})
		for a := range in.positions {
			free, held := in.Position(a)
			snap.Positions = append(snap.Positions, PositionState{Symbol: sym, Account: a.ID, Shares: free, Held: held})
		}
		for o := range s.Books[sym].Orders() {
			if o.Open > 0 {
				snap.Orders = append(snap.Orders, OrderState{ID: o.ID, Account: o.Account.ID, Symbol: sym,
					Terms: o.Terms, OnDisconnect: o.OnDisconnect, Taken: o.Taken, Lineage: o.Lineage,
					Shares: o.Shares, Open: o.Open, Executions: o.Status().Executions})
			}
		}
	}
	slices.SortFunc(snap.Orders, func(a, b OrderState) int { return int(a.ID) - int(b.ID) })
	return snap
}

// forgetClosed drops closed orders, which are not in snapshots.
func forgetClosed(s *State) {
	for _, b := range s.Books {
		for b.Forget() != 0 {
		}
	}
}

// TestASessionGoesOnFromItsSnapshot restores the state in the middle of a
// session and applies the later events: the final state must be the same.
func TestASessionGoesOnFromItsSnapshot(t *testing.T) {
	r := testRand(t)
	s := newRandomSession(r)
	s.run(2000)
	for range 10 {
		cut := r.IntN(len(s.events) + 1)
		middle := NewState()
		replay(t, middle, s.events[:cut])
		restored, err := snapshotOf(middle, s.events[:cut]).Restore()
		require.NoError(t, err)
		forgetClosed(middle)
		require.Equal(t, dump(middle), dump(restored), "after %d events", cut)

		replay(t, middle, s.events[cut:])
		replay(t, restored, s.events[cut:])
		require.NoError(t, restored.Audit())
		require.Equal(t, dump(middle), dump(restored), "from event %d on", cut)
	}
}

// TestTheNewestTimeOutlastsARestore checks State.Time, also if later events have earlier times.
func TestTheNewestTimeOutlastsARestore(t *testing.T) {
	s, err := (&Snapshot{Time: 9}).Restore()
	require.NoError(t, err)
	require.EqualValues(t, 9, s.Time)
	for _, c := range [][2]int64{{7, 9}, {12, 12}} {
		require.NoError(t, s.Apply(&Event{Kind: SymbolMade, Time: c[0], Symbol: Symbol("ABCDEFGHIJKLM"[c[0] : c[0]+1])}))
		require.Equal(t, c[1], s.Time)
	}
}

func TestAnEmptySnapshotIsAnEmptyExchange(t *testing.T) {
	s, err := new(Snapshot).Restore()
	require.NoError(t, err)
	require.Equal(t, dump(NewState()), dump(s))
}

// TestRestoreTakesTheHighestOrderID checks that no id is given out twice, whether the snapshot's OrderID or
// one of its orders is higher.
func TestRestoreTakesTheHighestOrderID(t *testing.T) {
	for _, given := range []OrderID{0, 4, 77} {
		snap := goodSnapshot(t)
		snap.OrderID = given
		s, err := snap.Restore()
		require.NoError(t, err)
		require.Equal(t, max(given, 5), s.OrderID)
	}
}

// goodSnapshot returns a snapshot with the open sells 3 (half executed) and 4, the open buy 5 (10 of
// 210 left), and an account 3 that never traded. Order 6 was the last.
func goodSnapshot(t *testing.T) *Snapshot {
	d := newShard()
	for _, id := range []AccountID{"1", "2", "3"} {
		require.Equal(t, OK, d.open(id, dollars(t, "10000")))
	}
	d.list("SPY")
	require.Equal(t, OK, d.place("SPY", "2", placed(t, "400")))
	for i, limit := range []string{"10", "11", "12", "13"} {
		_, _, r := d.order("2", "SPY", Sell, shares(t, "100"), price(t, limit))
		require.Equal(t, OK, r, "order %d", i+1)
	}
	_, _, r := d.order("1", "SPY", Buy, shares(t, "210"), price(t, "11"))
	require.Equal(t, OK, r)
	_, _, r = d.order("1", "SPY", Buy, shares(t, "50"), price(t, "12"))
	require.Equal(t, OK, r)
	return snapshotOf(d.State, d.events)
}

// TestRestoreRefusesWhatDoesNotAddUp changes a valid snapshot in one way at a
// time, as someone with access to the database could.
func TestRestoreRefusesWhatDoesNotAddUp(t *testing.T) {
	most := Int128{Hi: math.MaxInt64, Lo: math.MaxUint64}
	for name, spoil := range map[string]func(s *Snapshot){
		"a cent more":              func(s *Snapshot) { s.Accounts[0].Balance = s.Accounts[0].Balance.Add(Cash{Lo: 1e14}) },
		"an account twice":         func(s *Snapshot) { s.Accounts = append(s.Accounts, s.Accounts[0]) },
		"a buyer's account lost":   func(s *Snapshot) { s.Accounts = s.Accounts[1:] },
		"the owner of shares lost": func(s *Snapshot) { s.Accounts = slices.Delete(s.Accounts, 1, 2) },
		"a negative balance":       func(s *Snapshot) { s.Accounts[0].Balance = Cash{Hi: -1} },
		"a balance out of range":   func(s *Snapshot) { s.Accounts[0].Balance, s.Accounts[1].Held = Cash(most), Cash(most) },
		"an opening out of range":  func(s *Snapshot) { s.Accounts[0].Opened, s.Accounts[1].Opened = Cash(most), Cash(most) },
		"openings out of range in total": func(s *Snapshot) {
			for i := range 20 {
				s.Accounts = append(s.Accounts, AccountState{ID: AccountID(fmt.Sprint(10 + i)),
					Opened: CashTotalMax.Sub(Cash{Lo: 1})})
			}
		},
		"buys that no account can pay": func(s *Snapshot) {
			for i := range OrderID(3) {
				s.Orders = append(s.Orders, OrderState{ID: 10 + i, Account: "1", Symbol: "QQQ", Terms: Terms{Side: Buy,
					Limit: math.MaxInt64}, Shares: math.MaxInt64,
					Open: math.MaxInt64})
			}
			s.Symbols = append(s.Symbols, SymbolState{Symbol: "QQQ"})
		},
		"a hold without an order": func(s *Snapshot) { s.Orders = s.Orders[:2] },
		"a hold without its sell": func(s *Snapshot) { s.Orders = s.Orders[1:] },
		"a symbol twice":          func(s *Snapshot) { s.Symbols = append(s.Symbols, s.Symbols[0]) },
		"a symbol lost":           func(s *Snapshot) { s.Symbols = nil },
		"more placed than accounts have": func(s *Snapshot) {
			s.Symbols[0].Deposited = s.Symbols[0].Deposited.Add(Position{Lo: 1})
		},
		"placed out of range": func(s *Snapshot) { s.Symbols[0].Deposited = Position(most) },
		"a position twice":    func(s *Snapshot) { s.Positions = append(s.Positions, s.Positions[0]) },
		"a position out of range": func(s *Snapshot) {
			s.Positions[0].Shares, s.Positions[0].Held = Position(most), Position(most)
		},
		"a negative position":              func(s *Snapshot) { s.Positions[0].Shares = Position{Hi: -1} },
		"a position of an unknown account": func(s *Snapshot) { s.Positions[0].Account = "9" },
		"a position in no symbol":          func(s *Snapshot) { s.Positions[0].Symbol = "QQQ" },
		"a position lost with its shares": func(s *Snapshot) { // and the sells are still open
			i := slices.IndexFunc(s.Positions, func(p PositionState) bool { return p.Account == "2" })
			s.Symbols[0].Deposited = s.Symbols[0].Deposited.Sub(s.Positions[i].Shares).Sub(s.Positions[i].Held)
			s.Positions = slices.Delete(s.Positions, i, i+1)
		},
		"an order of an unknown account": func(s *Snapshot) { s.Orders[0].Account = "9" },
		"an order in no symbol":          func(s *Snapshot) { s.Orders[0].Symbol = "QQQ" },
		"an order of another account":    func(s *Snapshot) { s.Orders[0].Account = "3" },
		"an order without a side":        func(s *Snapshot) { s.Orders[0].Side = 0 },
		"an order twice":                 func(s *Snapshot) { s.Orders = append(s.Orders, s.Orders[2]) },
		"orders out of order":            func(s *Snapshot) { slices.Reverse(s.Orders) },
		"an order with nothing open":     func(s *Snapshot) { s.Orders[0].Open = 0 },
		"an order with more shares open": func(s *Snapshot) { s.Orders[0].Open++ },
		"an execution lost":              func(s *Snapshot) { s.Orders[0].Executions = nil },
		"another limit":                  func(s *Snapshot) { s.Orders[2].Limit++ },
		"a crossed book":                 func(s *Snapshot) { s.Orders[2].Limit = 13e8 },
	} {
		t.Run(name, func(t *testing.T) {
			s := goodSnapshot(t)
			_, err := s.Restore()
			require.NoError(t, err)
			spoil(s)
			_, err = s.Restore()
			require.Error(t, err)
		})
	}
}
