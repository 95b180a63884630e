package replica

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// followers are what follows the journal of a node: views of accounts and of market data, and a follower that keeps
// the records, as the projector and the standby do.
type followers struct {
	trail   *trail.Trail[exchange.KeptEvent]
	view    *accounts.View
	feed    *market.Feed
	records *trail.Follower[exchange.KeptEvent]
	passed  [][]byte // the records that were passed on
}

// followed founds a cluster of three nodes with an exchange. It returns what follows each node's journal.
func followed(t *testing.T) (*cluster, map[uint64]*followers) {
	all := map[uint64]*followers{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	c := newCluster(t, 3, func(o *Options) {
		f := &followers{trail: engine.NewTrail(o.Journal)}
		all[o.Node], o.Trail = f, f.trail
		follow := func() *trail.Follower[exchange.KeptEvent] {
			one, err := f.trail.Follow(trail.FollowOptions{HoldMax: math.MaxUint64})
			require.NoError(t, err)
			return one
		}
		f.records = follow()
		f.view = accounts.NewView(accounts.Options{Records: follow(), Log: o.Log}, &exchange.Snapshot{})
		f.feed = market.NewFeed(market.Options{Records: follow(), Log: o.Log}, &market.Snapshot{})
		running.Go(func() { f.view.Run(ctx) })
		running.Go(func() { f.feed.Run(ctx) })
	})
	t.Cleanup(func() { // before the nodes stop
		cancel()
		running.Wait()
		for _, f := range all {
			f.records.Close()
		}
	})
	return c, all
}

// upTo passes on the records up to seq, and returns all that were passed on.
func (f *followers) upTo(t *testing.T, seq uint64) [][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var into exchange.Event
	for uint64(len(f.passed)) < seq {
		got, event, err := f.records.Next(ctx)
		require.NoError(t, err)
		require.EqualValues(t, len(f.passed)+1, got)
		f.passed = append(f.passed, exchange.AppendEvent(nil, event.Event(&into)))
	}
	require.NoError(t, f.view.Await(ctx, seq))
	require.NoError(t, f.feed.Await(ctx, seq))
	_, _, ok, err := f.records.TryNext()
	require.NoError(t, err)
	require.False(t, ok, "nothing after record %d may be seen", seq)
	return f.passed
}

// shows requires that the views of a node show these bids for SPY, the best one first, and these accounts but no
// others.
func (f *followers) shows(t *testing.T, accounts []exchange.AccountID, bids ...exchange.Price) {
	t.Helper()
	var all []exchange.Price
	require.NoError(t, f.feed.View("SPY", func(m *market.Market) {
		for price := range m.Bids() {
			all = append(all, price)
		}
	}))
	require.Equal(t, bids, all)
	for _, id := range []exchange.AccountID{"1", "2", "7", "8"} {
		_, _, err := f.view.Account(id)
		require.Equal(t, slices.Contains(accounts, id), err == nil, "account %s: %v", id, err)
	}
	orders, _, _, err := f.view.OpenOrders("1", "", 0, 10)
	require.NoError(t, err)
	require.Len(t, orders, len(bids))
}

// lead makes an engine on a node that leads, with the state after the node's last record.
func (f *followers) lead(t *testing.T, n *testNode) *engine.Engine {
	t.Helper()
	state := exchange.NewState()
	for _, record := range f.upTo(t, n.Appended()) {
		var e exchange.Event
		require.NoError(t, new(exchange.Decoder).Decode(record, &e))
		require.NoError(t, state.Apply(&e))
	}
	x := engine.New(engine.Options{Journal: n.Replica, State: state, Trail: f.trail})
	t.Cleanup(x.Close)
	return x
}

// execute executes commands, each of which must be accepted, and returns without waiting for their records.
func execute(t *testing.T, x *engine.Engine, commands ...exchange.Command) engine.Mark {
	t.Helper()
	requests, results := make([]engine.Request, len(commands)), make([]exchange.Result, len(commands))
	for i := range commands {
		requests[i].Command = commands[i]
	}
	mark, err := x.Execute(t.Context(), requests, results)
	require.NoError(t, err)
	for i := range results {
		require.Equal(t, exchange.OK, results[i].Reason, "%+v", commands[i])
	}
	return mark
}

func opening(id exchange.AccountID) exchange.Command {
	return exchange.Command{Kind: exchange.OpenAccount, Account: id, Balance: exchange.Notional(1e11, 1e11)}
}

func buying(limit exchange.Price) exchange.Command {
	return exchange.Command{Kind: exchange.PlaceOrder, Account: "1", Symbol: "SPY", Shares: 5e8,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: limit}}
}

// TestWhatADeposedLeaderHasNotCommittedIsNeverSeen: records that a leader has appended while it was cut off are passed
// on to none of its followers, before and after another leader has committed other records of the same numbers. The
// followers get those.
func TestWhatADeposedLeaderHasNotCommittedIsNeverSeen(t *testing.T) {
	c, all := followed(t)
	old := c.leader(1, 2, 3)
	x := all[old.id].lead(t, old)
	mark := execute(t, x, opening("1"), exchange.Command{Kind: exchange.MakeSymbol, Symbol: "SPY"}, buying(1e8))
	require.NoError(t, x.Durable(t.Context(), mark))
	before := mark.Seq
	for _, n := range c.nodes {
		all[n.id].upTo(t, before)
	}
	one := []exchange.AccountID{"1"}

	c.isolate(old.id, true)
	lost := execute(t, x, buying(2e8), opening("7"), buying(3e8), buying(4e8)).Seq
	require.Equal(t, before+4, lost)
	require.Len(t, all[old.id].upTo(t, before), int(before))
	all[old.id].shows(t, one, 1e8)
	next := c.leader(c.others(old.id)...)
	y := all[next.id].lead(t, next)
	mark = execute(t, y, buying(6e8), buying(7e8), opening("8"), buying(8e8), buying(9e8), opening("2"))
	require.NoError(t, y.Durable(t.Context(), mark))
	after := mark.Seq
	require.Greater(t, after, lost)
	<-old.Deposed()
	require.Len(t, all[old.id].upTo(t, before), int(before))
	all[old.id].shows(t, one, 1e8)

	c.isolate(old.id, false)
	want := all[next.id].upTo(t, after)
	for id, f := range all {
		require.Equal(t, want, f.upTo(t, after), "node %d", id)
		f.shows(t, []exchange.AccountID{"1", "2", "8"}, 9e8, 8e8, 7e8, 6e8, 1e8)
	}
	require.Nil(t, all[old.id].trail.Place(after+1).Value, "the ring has gone")
	require.NotNil(t, all[next.id].trail.Place(after+1).Value)
}
