package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/lab/model"
	"outcry/internal/testing/budget"
	"outcry/internal/view/accounts"
)

// viewSeller and viewBuyer are accounts that the model's generator does not create.
const viewSeller, viewBuyer = 10_001, 10_002

// seenOf is the content of the view of accounts, for all accounts and symbols.
type seenOf struct {
	accounts map[exchange.AccountID]*accounts.Snapshot
	resting  map[exchange.Symbol][2][]accounts.RestingOrder
}

// seen returns the content of a server's view.
func seen(t *testing.T, s *server) seenOf {
	t.Helper()
	require.NoError(t, s.view.Await(background, s.journal.Appended()))
	all := seenOf{make(map[exchange.AccountID]*accounts.Snapshot), make(map[exchange.Symbol][2][]accounts.RestingOrder)}
	ids := []int{viewSeller, viewBuyer}
	for id := 1; id <= instructedAccounts; id++ {
		ids = append(ids, id)
	}
	for _, id := range ids {
		account := exchange.AccountID(fmt.Sprint(id))
		leave, err := s.view.Subscribe(account, 0, false, silent{},
			func(snap *accounts.Snapshot, _ []*exchange.AccountEvent) { all.accounts[account] = snap })
		require.NoError(t, err)
		leave()
	}
	for n := range instructedSymbols + 1 {
		sym := exchange.Symbol(fmt.Sprintf("SYM%d", n))
		leave, err := s.view.ListenOrders(sym, silent{}, func(o *accounts.OrdersSnapshot) {
			all.resting[sym] = [2][]accounts.RestingOrder{o.Bids, o.Asks}
		})
		require.NoError(t, err)
		leave()
	}
	return all
}

// silent is a Listener and an OrdersListener that ignores everything.
type silent struct{}

func (silent) Event(*exchange.AccountEvent)  {}
func (silent) Orders(*accounts.OrdersChange) {}
func (silent) Flush()                        {}
func (silent) End(error)                     {}

// TestAViewFromPostgresIsTheOneThatRan: after a restart, the numbers of events and fills and every detail of open
// orders are as before the stop.
func TestAViewFromPostgresIsTheOneThatRan(t *testing.T) {
	raced(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, _ := dataFlags(t)
	s, addr, err := tryInProcess(flags...)
	require.NoError(t, err)
	c, g := dial(t, addr), model.NewGenerator(seed, instructedSymbols, instructedAccounts).Instruct()
	for g.Commands() < budget.Of(6000) {
		g.Observe([]byte(c.must(t, string(g.Frame()))))
	}
	require.NoError(t, c.Close())
	// Two more accounts place open orders of all kinds in one more symbol.
	c = dial(t, addr)
	const seller, buyer = viewSeller, viewBuyer
	for _, frame := range []string{
		fmt.Sprintf(`<create><account id="%d" balance="0"/><account id="%d" balance="10000"/><symbol sym="SYM%d">`+
			`<account id="%d">100</account></symbol></create>`, seller, buyer, instructedSymbols, seller),
		asAccount(seller, `<order sym="SYM4" amount="-10" limit="50" ref="a1"/><order sym="SYM4" amount="-5" limit="60" `+
			`ref="b1"/><order sym="SYM4" amount="-5" limit="70" ref="c1" post="yes" stp="both"/>`),
		asAccount(buyer, `<order sym="SYM4" amount="1.5" limit="50"/><order sym="SYM4" amount="1.5" limit="55"/>`),
		asAccount(seller, `<amend ref="a1" amount="-8" newref="a2"/><amend ref="b1" limit="61" newref="b2"/>`+
			`<amend ref="b2" amount="-4"/><amend ref="c1" limit="70" newref="c2"/>`),
		asAccount(buyer, `<order sym="SYM4" amount="0.25" limit="55" ref="d1"/>`),
	} {
		require.NotContains(t, c.must(t, frame), "error")
	}
	var before seenOf
	require.Eventually(t, func() bool { // cancel its orders before the stop, not at the next start
		before = seen(t, s)
		for _, snap := range before.accounts {
			for i := range snap.Orders {
				if snap.Orders[i].OnDisconnect {
					return false
				}
			}
		}
		return true
	}, patience, time.Millisecond)
	require.NoError(t, s.stop())
	again, _ := inProcess(t, flags...)
	require.Equal(t, before, seen(t, again))
	orders := before.accounts[exchange.AccountID(fmt.Sprint(seller))].Orders
	require.Len(t, orders, 3)
	first, third, replaced := &orders[0], &orders[1], &orders[2]
	require.Equal(t, []exchange.Ref{"a1", "a2", "c1", "c2", "", ""}, []exchange.Ref{first.Ref, first.NewRef, third.Ref,
		third.NewRef, replaced.Ref, replaced.NewRef})
	require.Equal(t, []exchange.Shares{3.25e8, 2e8, 1e8},
		[]exchange.Shares{first.Executed, first.Reduced, replaced.Reduced})
	require.NotZero(t, replaced.Replaces)
}
