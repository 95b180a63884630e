package accounts

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// heard is a Listener that keeps its events.
type heard struct {
	events  []*exchange.AccountEvent
	flushed int // number of events before the last Flush
	ended   []error
}

func (h *heard) Event(e *exchange.AccountEvent) { h.events = append(h.events, e) }
func (h *heard) Flush()                         { h.flushed = len(h.events) }
func (h *heard) End(err error)                  { h.ended = append(h.ended, err) }

// subscribe subscribes h to an account, and returns what begin got.
func (h *heard) subscribe(t testing.TB, v *View, id exchange.AccountID, after int) (
	snap *Snapshot, missed []*exchange.AccountEvent, leave func(),
) {
	t.Helper()
	begun := 0
	leave, err := v.Subscribe(id, uint64(max(after, 0)), after >= 0, h,
		func(s *Snapshot, m []*exchange.AccountEvent) {
			snap, missed = s, m
			begun++
		})
	require.NoError(t, err)
	require.Equal(t, 1, begun)
	require.NotEqual(t, snap == nil, missed == nil)
	return snap, missed, leave
}

// mirror keeps the orders of a symbol as a client does: from a snapshot and the ops that follow it.
type mirror struct {
	t          testing.TB
	seq        uint64
	bids, asks []RestingOrder
	trade      uint64
	leave      func()
}

func newMirror(t testing.TB, v *View, sym exchange.Symbol) *mirror {
	m := &mirror{t: t}
	leave, err := v.ListenOrders(sym, m, func(s *OrdersSnapshot) { m.seq, m.bids, m.asks = s.Seq, s.Bids, s.Asks })
	require.NoError(t, err)
	m.leave = leave
	return m
}

func (m *mirror) Flush()    {}
func (m *mirror) End(error) {}

func (m *mirror) Orders(c *OrdersChange) {
	require.Equal(m.t, m.seq, c.Prev)
	require.Greater(m.t, c.Seq, c.Prev)
	require.NotEmpty(m.t, c.Ops)
	m.seq = c.Seq
	last := OpReplace
	for _, op := range c.Ops {
		kind := op.Kind
		if kind == OpDelete || kind == OpReduce {
			kind = OpFill // fills, deletes and reductions may come in any order
		}
		require.GreaterOrEqual(m.t, kind, last, "%+v", c.Ops)
		if last = kind; op.Kind == OpAdd {
			m.add(op)
			continue
		}
		m.change(op)
	}
}

// find returns the list that contains an order, and its index.
func (m *mirror) find(id exchange.OrderID) (side *[]RestingOrder, i int) {
	for _, side := range []*[]RestingOrder{&m.bids, &m.asks} {
		if i := slices.IndexFunc(*side, func(o RestingOrder) bool { return o.ID == id }); i >= 0 {
			return side, i
		}
	}
	m.t.Fatalf("order %d is not there", id)
	return nil, 0
}

func (m *mirror) change(op OrderOp) {
	side, i := m.find(op.Order)
	o := &(*side)[i]
	switch op.Kind {
	case OpFill:
		if m.trade != 0 {
			require.Equal(m.t, m.trade+1, op.Trade)
		}
		m.trade = op.Trade
		fallthrough
	case OpReduce:
		require.Equal(m.t, o.Shares-op.Shares, op.Open)
		if o.Shares = op.Open; op.Open > 0 {
			return
		}
	case OpReplace:
		require.Greater(m.t, op.By, op.Order)
	}
	*side = slices.Delete(*side, i, i+1)
}

// add adds an order after all others at its price.
func (m *mirror) add(op OrderOp) {
	side, better := &m.asks, func(p exchange.Price) bool { return p <= op.Price }
	if op.Side == exchange.Buy {
		side, better = &m.bids, func(p exchange.Price) bool { return p >= op.Price }
	}
	i := 0
	for i < len(*side) && better((*side)[i].Price) {
		i++
	}
	*side = slices.Insert(*side, i, RestingOrder{op.Order, op.Price, op.Shares})
}

// same requires that the mirror equals the twin's resting orders.
func (m *mirror) same(w *twin, sym exchange.Symbol) {
	m.t.Helper()
	bids, asks := w.resting(sym)
	require.Equal(m.t, fmt.Sprint(bids, asks), fmt.Sprint(m.bids, m.asks))
}

// TestTheFeedTellsWhatTheRecordsDo: each record makes one event for each account that it changes, with what the
// twin finds by comparing the states before and after. Listeners may subscribe at any moment, and miss no event
// after that. Mirrors of the resting orders equal the twin's orders. A view without listeners counts the same
// events, and a view that starts from a snapshot in the middle makes the same ones.
func TestTheFeedTellsWhatTheRecordsDo(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const commands = 3000
	r := rand.New(rand.NewPCG(seed, 19))
	w, m, tw := newTrader(t, seed), new(memory), newTwin()
	v := newView(m, nil)
	releases := make(map[exchange.AccountID]func())
	for _, id := range traders {
		releases[id] = v.Watch(id) // before the accounts are opened
	}
	all := make(map[exchange.AccountID]*heard)
	mirrors := make(map[exchange.Symbol]*mirror)
	want := make(map[exchange.AccountID][]*exchange.AccountEvent)
	var records [][]byte
	var snap *exchange.Snapshot
	var silent *memory
	next := func(more [][]byte) {
		for _, record := range more {
			records = append(records, record)
			m.records = append(m.records, record)
			take(t, v)
			var e exchange.Event
			require.NoError(t, exchange.DecodeEvent(record, &e))
			for id, event := range tw.apply(t, &e) {
				event.Seq = v.Seq()
				want[id] = append(want[id], event)
				if all[id] == nil {
					all[id] = new(heard)
					_, missed, _ := all[id].subscribe(t, v, id, 0)
					all[id].events = missed
				}
				require.Equal(t, event, all[id].events[len(all[id].events)-1])
			}
			for id, h := range all {
				require.Len(t, h.events, len(want[id]))
				require.Equal(t, len(want[id]), max(h.flushed, 1))
			}
			for _, sym := range tw.symbols {
				switch old := mirrors[sym]; {
				case old == nil:
					mirrors[sym] = newMirror(t, v, sym)
				case r.IntN(500) == 0:
					old.leave()
					mirrors[sym] = newMirror(t, v, sym)
					require.Equal(t, old.seq, mirrors[sym].seq)
				}
				mirrors[sym].same(tw, sym)
			}
		}
	}
	next(w.do(w.open()...))
	for n := range commands {
		next(w.do(w.draw()))
		if n%100 == 0 { // a view from a snapshot has all details of the open orders
			fresh := newView(new(memory), tw.midway(v.Seq()))
			for _, id := range traders {
				requireWhole(t, fresh, tw, id)
			}
		}
		if n == commands/2 {
			snap, silent = tw.midway(v.Seq()), new(memory)
		}
	}
	for _, id := range traders {
		require.NotEmpty(t, want[id])
		require.Equal(t, want[id], all[id].events)
		requireWhole(t, v, tw, id)
	}
	requireFits(t, v)

	quiet := newView(&memory{records: records}, nil)
	take(t, quiet)
	again := newView(silent, snap)
	require.NoError(t, again.Err())
	later := make(map[exchange.AccountID]*heard)
	for _, id := range traders {
		later[id] = new(heard)
		later[id].subscribe(t, again, id, -1)
	}
	other := newMirror(t, again, "A")
	silent.records = records[snap.Seq:]
	take(t, again)
	other.same(tw, "A")
	for _, id := range traders {
		require.Equal(t, tw.n[id], quiet.accounts[id].n)
		require.Nil(t, quiet.accounts[id].watch)
		require.NotEmpty(t, later[id].events)
		first := later[id].events[0].N
		bytes, err := json.Marshal(later[id].events)
		require.NoError(t, err)
		same, err := json.Marshal(want[id][first-1:])
		require.NoError(t, err)
		require.Equal(t, string(same), string(bytes), "from a snapshot at record %d", snap.Seq)
		requireWhole(t, again, tw, id)
	}
}

// requireWhole demands that an account and the details of its open orders in the view equal the twin's.
func requireWhole(t testing.TB, v *View, w *twin, id exchange.AccountID) {
	t.Helper()
	view := w.account(id)
	got, seq, err := v.Account(id)
	require.NoError(t, err)
	require.Equal(t, view, got)
	require.Equal(t, v.Seq(), seq)
	orders := []exchange.OrderDetail{}
	for _, o := range w.open(id, "") {
		orders = append(orders, *w.details[o.ID])
		d, missing, seq, found := v.Order(id, o.ID)
		require.True(t, found)
		require.Equal(t, v.Seq(), seq)
		require.Equal(t, id, d.Account)
		require.Equal(t, *w.details[o.ID], d.OrderDetail)
		var all []exchange.AccountFill
		for _, f := range w.fills[id] {
			if f.Order == o.ID {
				all = append(all, f)
			}
		}
		require.Len(t, d.Fills, len(all)-missing)
		require.Empty(t, cmpFills(all[missing:], d.Fills))
	}
	require.Equal(t, &Snapshot{N: w.n[id], LastFill: uint64(len(w.fills[id])), Seq: v.Seq(), Balance: view.Balance,
		Held: view.Held, Positions: view.Positions, Orders: orders}, v.snapshot(v.accounts[id]))
}

// TestAViewKeepsNothingOfAnEvent: after a chunk, the view does not refer to the last event, which may be large.
func TestAViewKeepsNothingOfAnEvent(t *testing.T) {
	m := new(memory)
	crowd(m, 1, 1)
	v := newView(m, nil)
	m.add(placed(1, 1, 0, exchange.Sell, 5))
	m.add(exchange.Event{Kind: exchange.OrdersCanceled, Account: "1", Cancels: []exchange.Cancel{{Order: 1,
		Symbol: symbolOf(0), Shares: 5, Terms: exchange.Terms{Side: exchange.Sell, Limit: 1e8}}}})
	take(t, v)
	require.Nil(t, v.event)
}
