package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStateIsTheSameAsItsSnapshot(t *testing.T) {
	s := newRandomSession(testRand(t))
	s.run(1000)
	snap := snapshotOf(s.State, s.events)
	require.NoError(t, s.SameOrders(snap))
	require.NoError(t, s.SameHoldings(snap))
	require.NoError(t, NewState().SameOrders(&Snapshot{}))
	require.NoError(t, NewState().SameHoldings(&Snapshot{}))
}

// TestTheFirstDifferenceIsNamedWithBothValues changes a snapshot. After the events of filled,
// order 3 has 50 shares open and order 4 has 100.
func TestTheFirstDifferenceIsNamedWithBothValues(t *testing.T) {
	for want, change := range map[string]func(s *Snapshot){
		"order 3 is missing: it should have account 2, sell 100 SPY at 12, 50 open": func(s *Snapshot) {
			s.Orders = s.Orders[1:]
		},
		"order 4 is missing: it should have account 2, sell 100 SPY at 13, 100 open": func(s *Snapshot) {
			s.Orders = s.Orders[:1]
		},
		"order 9 should not exist: it has account 2, sell 100 SPY at 13, 100 open": func(s *Snapshot) {
			s.Orders = append(s.Orders, s.Orders[1])
			s.Orders[2].ID = 9
		},
		"order 4 should not exist: it has account 2, sell 100 SPY at 13, 100 open": func(s *Snapshot) {
			s.Orders = append(s.Orders, s.Orders[1])
		},
		"order 3 has account 2, sell 100 SPY at 12, 50.00000001 open; " +
			"it should have account 2, sell 100 SPY at 12, 50 open": func(s *Snapshot) {
			s.Orders[0].Open++
		},
		"order 3 has account 1, sell": func(s *Snapshot) {
			s.Orders[0].Account = "1"
		},
		"order 3 has account 2, buy": func(s *Snapshot) {
			s.Orders[0].Side = Buy
		},
		"order 3 has account 2, sell 100 QQQ": func(s *Snapshot) {
			s.Orders[0].Symbol = "QQQ"
		},
		"order 3 has account 2, sell 100 SPY at 12.00000001": func(s *Snapshot) {
			s.Orders[0].Limit++
		},
		"order 3 has account 2, sell 99.99999999": func(s *Snapshot) {
			s.Orders[0].Shares--
		},
		"the last order is 6; it should be 5": func(s *Snapshot) {
			s.OrderID++
		},
		"account 1 has 7300.0000000000000001 free, 0 held; it should have 7300 free, 0 held": func(s *Snapshot) {
			s.Accounts[0].Balance.Lo++
		},
		"account 1 has 7300 free, 0.0000000000000001 held": func(s *Snapshot) {
			s.Accounts[0].Held.Lo++
		},
		"account 2 is missing: it should have 12700 free, 0 held": func(s *Snapshot) {
			s.Accounts = s.Accounts[:1]
		},
		"account 3 should not exist: it has 0 free, 0 held": func(s *Snapshot) {
			s.Accounts = append(s.Accounts, AccountState{ID: "3"})
		},
		"symbol SPY has 400.00000001 placed; it should have 400 placed": func(s *Snapshot) {
			s.Symbols[0].Deposited.Lo++
		},
		`symbol SPY has 400 placed, halted since 7: "x"; it should have 400 placed`: func(s *Snapshot) {
			s.Symbols[0].Halt = &Halt{7, "x"}
		},
		"symbol SPY is missing: it should have 400 placed": func(s *Snapshot) {
			s.Symbols = nil
		},
		"position of account 1 in SPY has 250.00000001 free, 0 held; it should have 250 free, 0 held": func(s *Snapshot) {
			for i := range s.Positions {
				if s.Positions[i].Account == "1" {
					s.Positions[i].Shares.Lo++
				}
			}
		},
		"position of account 1 in SPY is missing": func(s *Snapshot) { s.Positions = nil },
	} {
		t.Run(want, func(t *testing.T) {
			s, events := NewState(), filled(t)
			replay(t, s, events)
			snap := snapshotOf(s, events)
			change(snap)
			err := s.SameOrders(snap)
			if err == nil {
				err = s.SameHoldings(snap)
			}
			require.ErrorContains(t, err, "exchange: "+want)
		})
	}
}

func TestTheFirstFillThatDiffersIsTold(t *testing.T) {
	a, b := Fill{Resting: 1, Shares: 1}, Fill{Resting: 2, Shares: 2}
	for _, c := range []struct {
		recorded, now []Fill
		place         int
		was, is       *Fill
	}{
		{[]Fill{a, b}, []Fill{a}, 1, &b, nil},
		{[]Fill{a}, []Fill{a, b}, 1, nil, &b},
		{[]Fill{b, a}, []Fill{a, a}, 0, &b, &a},
		{nil, []Fill{a}, 0, nil, &a},
	} {
		place, was, is := (&FillsError{Recorded: c.recorded, Now: c.now}).First()
		require.Equal(t, c.place, place)
		require.Equal(t, c.was, was)
		require.Equal(t, c.is, is)
	}
}

func TestEventsAreTheSameOnlyInEveryField(t *testing.T) {
	events := filled(t)
	e := events[len(events)-1]
	same := decoded(t, AppendEvent(nil, &e))
	require.True(t, e.Same(&same))
	for name, change := range map[string]func(e *Event){
		"kind": func(e *Event) { e.Kind = OrderCanceled }, "side": func(e *Event) { e.Side = Sell },
		"time":    func(e *Event) { e.Time++ },
		"account": func(e *Event) { e.Account = "9" }, "symbol": func(e *Event) { e.Symbol = "A" },
		"balance": func(e *Event) { e.Balance.Lo++ },
		"placed":  func(e *Event) { e.Deposited.Lo++ }, "order": func(e *Event) { e.Order++ },
		"shares": func(e *Event) { e.Shares++ },
		"limit":  func(e *Event) { e.Limit++ }, "a fill's price": func(e *Event) { e.Fills[1].Price++ },
		"a fill gone": func(e *Event) { e.Fills = e.Fills[1:] },
		"reason":      func(e *Event) { e.Reason = "x" }, "a cancel": func(e *Event) { e.Cancels = []Cancel{{}} },
	} {
		other := decoded(t, AppendEvent(nil, &e))
		change(&other)
		require.False(t, e.Same(&other), name)
	}
}
