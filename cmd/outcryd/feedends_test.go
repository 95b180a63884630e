package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/view/market"
)

// feedListener is a listener to market data that records the end, and may panic at the first change.
type feedListener struct {
	panics bool
	ended  chan error
}

func (l feedListener) Change(*market.Change) {
	if l.panics {
		panic("a bug")
	}
}
func (l feedListener) Flush(*market.Market) {}
func (l feedListener) End(err error)        { l.ended <- err }

// TestAFeedThatPanicsEndsAlone: its listeners and waiting callers get the reason. Trading continues, and the view of
// accounts and Postgres have each later record.
func TestAFeedThatPanicsEndsAlone(t *testing.T) {
	raced(t)
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, flags...)
	c := dial(t, addr)
	c.must(t, `<create><account id="1" balance="1000"/><symbol sym="S"/></create>`)
	require.NoError(t, s.feed.Await(background, s.journal.Appended()))
	ended := make(chan error, 2)
	for _, panics := range []bool{true, false} {
		_, err := s.feed.Listen("S", feedListener{panics, ended}, func(*market.Market) {})
		require.NoError(t, err)
	}
	waits := make(chan error, 1)
	go func() { waits <- s.feed.Await(background, s.journal.Appended()+100) }()
	order := asAccount(1, `<order sym="S" amount="1" limit="1"/>`)
	require.Contains(t, c.must(t, order), "opened")
	for _, err := range []error{<-ended, <-ended, <-waits} {
		require.ErrorContains(t, err, "panic: a bug")
	}
	<-s.feed.Ended()
	require.ErrorContains(t, s.feed.Err(), "panic: a bug")
	for range 100 {
		require.Contains(t, c.must(t, order), "opened")
	}
	require.NoError(t, s.view.Await(background, s.journal.Appended()))
	require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	orders, _, _, err := s.view.OpenOrders("1", "S", 0, 1000)
	require.NoError(t, err)
	require.Len(t, orders, 101)
}
