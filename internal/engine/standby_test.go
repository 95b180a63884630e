package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// records returns the records of a market's journal up to seq; the first record has index 0.
func (m *market) records(seq uint64) (all [][]byte) {
	m.t.Helper()
	require.NoError(m.t, m.journal.Wait(background, m.journal.Appended()))
	require.NoError(m.t, journal.Scan(m.dir, exchange.EventVersion, func(n uint64, record []byte) error {
		if n <= seq {
			all = append(all, append([]byte(nil), record...))
		}
		return nil
	}))
	return all
}

// project puts the contents of records into a database, as the projector would, unless it has them
// already.
func (d *database) project(t testing.TB, records [][]byte, fillsMax int) {
	if uint64(len(records)) <= d.applied.Load() {
		return
	}
	state, accepted := exchange.NewState(), make(map[exchange.OrderID]uint64)
	state.Index.FillsMax = fillsMax
	for i, record := range records {
		var e exchange.Event
		require.NoError(t, exchange.DecodeEvent(record, &e))
		require.NoError(t, state.Apply(&e))
		if e.Kind == exchange.OrderAccepted || e.Kind == exchange.OrderReplaced {
			accepted[e.Order] = uint64(i + 1)
		}
		if e.Ref != "" {
			d.refs.Store(exchange.RefKey{Account: e.Account, Ref: e.Ref}, e.Use())
		}
	}
	for sym, book := range state.Books {
		for o := range book.Orders() {
			if o.Open == 0 || o.Canceled > 0 {
				d.orders.Store(o.ID, exchange.ClosedOrder{Account: o.Account.ID, Seq: accepted[o.ID], PublicOrder: o.Public(sym)})
			}
			d.projectChain(t, book, &o, exchange.ClosedOrder{Account: o.Account.ID, Seq: accepted[o.ID],
				PublicOrder: o.Public(sym)})
		}
	}
	d.applied.Store(uint64(len(records)))
}

// projectChain stores in the database the immediate result of an order, and the newest order of its chain.
func (d *database) projectChain(t testing.TB, book *exchange.Book, o *exchange.Order, row exchange.ClosedOrder) {
	if book.Unfinished() != o.ID {
		first, known := o.AtFirst()
		require.True(t, known)
		row.Status = first
		d.atFirst.Store(o.ID, row)
	}
	if first := o.First(); first != o.ID && book.Newest(first) == o.ID {
		d.newest.Store(first, o.ID)
	}
}

// random executes n commands of all kinds, some with refs, and some of these repeated.
func (m *market) random(rng *rand.Rand, n int) (refs []exchange.Command) {
	m.t.Helper()
	for i := range n {
		sym := exchange.Symbol([]string{"A", "B", "C"}[rng.IntN(3)])
		c := buy(sym, exchange.Shares(1+rng.IntN(9)), exchange.Price(1+rng.IntN(6)))
		if rng.IntN(2) == 0 {
			c = sell(sym, exchange.Shares(1+rng.IntN(9)), exchange.Price(1+rng.IntN(6)))
		}
		switch rng.IntN(40) {
		case 0:
			c = exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym}
		case 1:
			c = exchange.Command{Kind: exchange.OpenAccount, Account: exchange.AccountID(fmt.Sprint(10 + rng.IntN(99)))}
		case 2:
			c = exchange.Command{Kind: exchange.DepositShares, Symbol: sym, Account: "2",
				Deposited: exchange.Shares(7).Position()}
		case 3, 4, 5, 6:
			c = cancelOf(exchange.OrderID(1+rng.IntN(i+1)), exchange.AccountID(fmt.Sprint(1+rng.IntN(2))))
		case 7:
			m.halt(sym, "random")
		case 8, 9:
			_, err := m.Resume(background, sym)
			require.NoError(m.t, err)
		case 10:
			if rng.IntN(4) == 0 {
				m.cancelAll(exchange.AccountID(fmt.Sprint(1+rng.IntN(2))), "")
			}
		}
		if c.Kind.Makes() && rng.IntN(3) == 0 {
			c.Ref = exchange.Ref(fmt.Sprint("r", i))
			if len(refs) > 0 && rng.IntN(5) == 0 {
				c = refs[rng.IntN(len(refs))]
			}
			refs = append(refs, c)
		}
		m.do(c)
	}
	return refs
}

// usedRefs returns the refs that records use.
func usedRefs(t testing.TB, records [][]byte) map[exchange.RefKey]bool {
	used := make(map[exchange.RefKey]bool)
	for _, record := range records {
		var e exchange.Event
		require.NoError(t, exchange.DecodeEvent(record, &e))
		used[exchange.RefKey{Account: e.Account, Ref: e.Ref}] = e.Ref != ""
	}
	return used
}

// questions returns commands that query every order and every ref and change nothing.
func questions(last exchange.OrderID, refs []exchange.Command) (all []exchange.Command) {
	for id := exchange.OrderID(1); id <= last+2; id++ {
		all = append(all, queryOf(id))
	}
	for _, c := range refs {
		all = append(all, queryRef(c.Account, c.Ref))
	}
	return all
}

// answers executes commands one by one and returns their results.
func (m *market) answers(asked []exchange.Command) (all []exchange.Result) {
	for _, c := range asked {
		all = append(all, m.do(c))
	}
	return all
}

// replay applies a record as a follower of the journal does, whose events are overwritten afterwards.
func replay(s *Standby, seq uint64, record []byte) error {
	var kept exchange.KeptEvent
	if err := new(exchange.Decoder).DecodeKept(record, &kept); err != nil {
		return err
	}
	e := kept.Event(new(exchange.Event))
	size := len(e.Ref) + len(e.Reason)
	err := s.Apply(seq, e)
	kept.Recycle()
	kept.Keep(&exchange.Event{Kind: exchange.SymbolHalted, Symbol: "OTHER", Reason: strings.Repeat("!", size)})
	return err
}

// TestAnEngineContinuesWhereAStandbyIs: an engine made from a standby that has applied the records of an engine
// answers like that engine: its digest, old and new orders, refs, and order ids are the same. The database may be
// ahead of the standby or lag behind it.
func TestAnEngineContinuesWhereAStandbyIs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	db := &database{}
	limits := Options{Projection: db, History: db, ClosedOrdersMax: 1 + rng.IntN(50), RefsMax: 40, BacklogMax: 1 << 20}
	m := openWith(t, limits, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
	m.index.FillsMax = 2
	require.Equal(t, exchange.OK, m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"}).Reason)
	refs := m.random(rng, 5000)
	records := m.records(m.journal.Appended())
	used := usedRefs(t, records)
	refs = slices.DeleteFunc(refs, func(c exchange.Command) bool {
		return !used[exchange.RefKey{Account: c.Account, Ref: c.Ref}]
	})

	begun := rng.IntN(len(records)) // the number of records that the standby starts with
	state := exchange.NewState()
	state.Index.FillsMax = 2
	for _, record := range records[:begun] {
		var e exchange.Event
		require.NoError(t, exchange.DecodeEvent(record, &e))
		require.NoError(t, state.Apply(&e))
	}
	db.project(t, records[:begun], 2)
	s := NewStandby(StandbyOptions{State: state, Seq: uint64(begun), Projection: db, History: db,
		ClosedOrdersMax: limits.ClosedOrdersMax, RefsMax: limits.RefsMax})
	require.Eventually(t, s.refs.complete.Load, time.Minute, time.Millisecond)
	held := int64(begun) // maximum of closed orders: from the start, or before the database caught up
	for n, record := range records[begun:] {
		if seq := begun + n; rng.IntN(1000) == 0 { // the database advances, perhaps beyond the standby
			db.project(t, records[:rng.IntN(min(len(records), seq+100))], 2)
		}
		require.NoError(t, s.WaitRoom(background))
		require.NoError(t, replay(s, uint64(begun+n+1), record))
		stats := s.Stats()
		if stats.Appended <= db.applied.Load() {
			require.LessOrEqual(t, stats.ClosedOrders, max(int64(limits.ClosedOrdersMax), held))
		}
		held = max(int64(begun), stats.ClosedOrders)
	}
	require.Less(t, s.Stats().Refs, int64(2*sweepRecords))
	db.project(t, records[:rng.IntN(len(records)+1)], 2)

	asked := questions(exchange.OrderID(m.lastOrder.Load()), refs)
	shown := func(show func(id exchange.OrderID) (exchange.PublicOrder, bool)) (all []exchange.PublicOrder) {
		for id := exchange.OrderID(1); id < exchange.OrderID(m.lastOrder.Load()+3); id++ {
			o, found := show(id)
			require.Equal(t, found, o.Symbol != "")
			o.Status.Executions = append([]exchange.Execution{}, o.Status.Executions...) // empty instead of nil
			all = append(all, o)
		}
		return all
	}
	wantShown := shown(func(id exchange.OrderID) (exchange.PublicOrder, bool) {
		o, found, err := m.Show(background, id, 1, 3)
		require.NoError(t, err)
		return o, found
	})
	require.Equal(t, wantShown, shown(func(id exchange.OrderID) (exchange.PublicOrder, bool) {
		o, found, err := s.Show(background, id, 1, 3)
		require.NoError(t, err)
		return o, found
	}))
	require.Equal(t, m.Halts(), s.Halts())
	want, repeated, stats := m.answers(asked), m.answers(refs), m.Stats()
	require.Equal(t, len(records), int(m.journal.Appended()), "no record was appended")
	m.Close()
	digest, seq, err := s.Digest()
	require.NoError(t, err)
	require.Equal(t, uint64(len(records)), seq)
	require.Equal(t, m.State().Digest(), digest)
	require.NoError(t, s.state.Audit())

	o := limits
	o.Journal, o.Standby, o.Now = m.journal, s, m.options.Now
	m.Engine = New(o)
	s.Close()
	require.Equal(t, want, m.answers(asked))
	require.Equal(t, repeated, m.answers(refs))
	require.Equal(t, len(records), int(m.journal.Appended()), "no record was appended")
	now := m.Stats()
	require.Equal(t, []any{stats.Accounts, stats.Symbols, stats.Halted, stats.OpenOrders, stats.LastOrder},
		[]any{now.Accounts, now.Symbols, now.Halted, now.OpenOrders, now.LastOrder})

	db.project(t, records, 2)
	m.halted("A", false)
	require.Equal(t, exchange.OrderID(stats.LastOrder+1), m.do(buy("A", 1, 1)).Order)
	for range 2 * forgetMax { // each command forgets some
		m.do(sell("A", 1, 6))
	}
	m.agrees()
	m.Close()
	require.NoError(t, m.State().Audit())
	for _, sh := range *m.numbered.Load() {
		require.Equal(t, int64(sh.book.Closed()), sh.closedCount.Load())
	}
	m.Engine = New(Options{Journal: m.journal, State: m.State()}) // the market's cleanup closes it
}

// halted halts or resumes a symbol.
func (m *market) halted(sym exchange.Symbol, halted bool) {
	if halted {
		m.halt(sym, "")
		return
	}
	_, err := m.Resume(background, sym)
	require.NoError(m.t, err)
}

// takeOver returns a market whose engine has taken over from a standby that has applied m's records up to seq.
func (m *market) takeOver(seq uint64, o Options) *market {
	m.t.Helper()
	dir := filepath.Join(m.t.TempDir(), "standby")
	j, err := journal.Open(dir, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
	require.NoError(m.t, err)
	state := exchange.NewState()
	state.Index.FillsMax = m.index.FillsMax
	s := NewStandby(StandbyOptions{State: state, Projection: o.Projection, History: o.History,
		ClosedOrdersMax: o.ClosedOrdersMax, RefsMax: o.RefsMax})
	if o.History != nil {
		require.Eventually(m.t, s.refs.complete.Load, time.Minute, time.Millisecond)
	}
	for n, record := range m.records(seq) {
		require.NoError(m.t, replay(s, uint64(n+1), record))
		_, err := j.Append(record)
		require.NoError(m.t, err)
	}
	o.Journal, o.Standby = j, s
	again := &market{New(o), m.t, j, dir}
	m.t.Cleanup(func() {
		again.Close()
		j.Close()
	})
	return again
}

// TestAnOrderInPartsIsFinishedByTheNewLeader lets the leader end after each part in turn.
func TestAnOrderInPartsIsFinishedByTheNewLeader(t *testing.T) {
	m := inParts(t, Options{})
	for n := range 7 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, exchange.Price(5+n%2))).Reason)
	}
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.Result{Order: 8}, m.do(named("r", buy("A", 9, 6))))
	status := m.do(queryOf(8)).Status
	for seq := first; seq <= m.journal.Appended(); seq++ {
		next := m.takeOver(seq, Options{Now: m.options.Now})
		require.Equal(t, exchange.Result{Order: 8}, next.do(named("r", buy("A", 9, 6))), "its ref is used")
		require.Equal(t, exchange.OK, next.do(buy("A", 1, 1)).Reason)
		require.Equal(t, status, next.do(queryOf(8)).Status, "crash after part %d", seq-first+1)
		next.agrees()
	}
}

// TestATakeoverNeedsNoDatabase: commands with new refs and repeats of recent ones work without it.
func TestATakeoverNeedsNoDatabase(t *testing.T) {
	m, db := open(t, Options{}), &database{}
	db.refs.Store(exchange.RefKey{Account: "1", Ref: "old"}, exchange.RefUse{})
	require.Equal(t, exchange.OrderID(1), m.do(named("lately", buy("A", 1, 1))).Order)
	next := m.takeOver(m.journal.Appended(), Options{Projection: db, History: db})
	db.away.Store(true)
	require.Equal(t, exchange.Result{Order: 2}, next.do(named("new", buy("A", 1, 1))))
	require.Equal(t, exchange.Result{Order: 1}, next.do(named("lately", buy("A", 1, 1))))
	require.Equal(t, exchange.RefUnavailable, next.do(named("old", buy("A", 1, 1))).Reason)
}

// TestTheFilterIsFilledOnThoughTheStandbyHasTakenOver: the database becomes available only after the takeover.
func TestTheFilterIsFilledOnThoughTheStandbyHasTakenOver(t *testing.T) {
	m, db := open(t, Options{}), &database{}
	db.away.Store(true)
	s := NewStandby(StandbyOptions{State: exchange.NewState(), Projection: db, History: db})
	for n, record := range m.records(m.journal.Appended()) {
		require.NoError(t, replay(s, uint64(n+1), record))
	}
	m.Close()
	m.Engine = New(Options{Journal: m.journal, Standby: s, Projection: db, History: db})
	require.Equal(t, exchange.RefUnavailable, m.do(named("new", buy("A", 1, 1))).Reason)
	db.away.Store(false)
	require.Eventually(t, m.refs.complete.Load, time.Minute, time.Millisecond)
	require.Equal(t, exchange.OK, m.do(named("new", buy("A", 1, 1))).Reason)
}

// TestTimesDoNotGoBackWhenALeaderEnds: the clock of the old leader was ahead.
func TestTimesDoNotGoBackWhenALeaderEnds(t *testing.T) {
	clock := int64(1000)
	m := open(t, Options{Now: func() int64 { return clock }})
	m.do(buy("A", 1, 1))
	next := m.takeOver(m.journal.Appended(), Options{Now: func() int64 { return 5 }})
	last := next.journal.Appended()
	require.Equal(t, exchange.OK, next.do(exchange.Command{Kind: exchange.OpenAccount, Account: "3"}).Reason)
	require.Equal(t, exchange.OK, next.do(buy("B", 1, 1)).Reason)
	next.cancelAll("1", "B")
	events := next.events(last + 1)
	require.Len(t, events, 3)
	for _, e := range events {
		require.Equal(t, clock, e.Time, e.Kind)
	}
}

// TestAStandbyRefusesAnotherHistory also checks that the standby answers nothing after that.
func TestAStandbyRefusesAnotherHistory(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 5, 3), buy("A", 2, 3))
	records := m.records(m.journal.Appended())
	last := len(records) - 1
	var e exchange.Event
	require.NoError(t, exchange.DecodeEvent(records[last], &e))
	e.Fills[0].Shares--
	for what, c := range map[string]struct {
		seq    uint64
		record []byte
		says   string
	}{
		"fills":   {uint64(last + 1), exchange.AppendEvent(nil, &e), "was filled"},
		"a gap":   {uint64(last + 2), records[last], "want record"},
		"a round": {uint64(last), records[last], "want record"},
	} {
		s := NewStandby(StandbyOptions{State: exchange.NewState()})
		for n, record := range records[:last] {
			require.NoError(t, replay(s, uint64(n+1), record))
		}
		err := replay(s, c.seq, c.record)
		require.ErrorContains(t, err, fmt.Sprintf("record %d", c.seq), what)
		require.ErrorContains(t, err, c.says, what)
		require.Equal(t, err, replay(s, uint64(last+1), records[last]), what)
		_, _, shown := s.Show(background, 1, 0, 1)
		require.Equal(t, err, shown, what)
		_, _, digested := s.Digest()
		require.Equal(t, err, digested, what)
		require.Equal(t, uint64(last), s.Seq(), what)
		require.Panics(t, func() { New(Options{Journal: m.journal, Standby: s}) }, what)
		s.Close()
	}
}

// TestAStandbyWaitsForItsDatabase checks that a standby applies no more records once its database is BacklogMax
// records behind: it keeps in memory the records that the database lacks.
func TestAStandbyWaitsForItsDatabase(t *testing.T) {
	m, db := open(t, Options{}), &database{}
	s := NewStandby(StandbyOptions{State: exchange.NewState(), Projection: db, BacklogMax: 3})
	defer s.Close()
	for n, record := range m.records(3) {
		require.NoError(t, s.WaitRoom(background))
		require.NoError(t, replay(s, uint64(n+1), record))
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, s.WaitRoom(ended), context.Canceled)
	require.Equal(t, uint64(3), s.Stats().Lag)
	db.applied.Store(1)
	require.NoError(t, s.WaitRoom(ended))
}

// TestReadersOfAStandby reads from a standby while it applies records, and while an engine takes it over. It is also
// meant for the race detector.
func TestReadersOfAStandby(t *testing.T) {
	m, db := open(t, Options{}), &database{}
	m.random(rand.New(rand.NewPCG(1, 2)), 3000)
	records := m.records(m.journal.Appended())
	m.Close()
	s := NewStandby(StandbyOptions{State: exchange.NewState(), Projection: db, History: db, ClosedOrdersMax: 5,
		RefsMax: 20})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for n := range 2 {
		readers.Go(func() {
			for id := exchange.OrderID(n); ; id++ {
				select {
				case <-done:
					return
				default:
				}
				if _, _, err := s.Show(background, id%500, 0, 10); err != nil {
					assert.ErrorIs(t, err, ErrStopped)
				}
				s.Halts()
				s.Stats()
				if id%64 == 0 {
					_, _, _ = s.Digest()
				}
			}
		})
	}
	for n, record := range records {
		require.NoError(t, replay(s, uint64(n+1), record))
		db.applied.Store(uint64(n))
	}
	m.Engine = New(Options{Journal: m.journal, Standby: s, Projection: db})
	m.do(buy("A", 1, 1))
	close(done)
	readers.Wait()
	_, _, err := s.Digest()
	require.ErrorIs(t, err, ErrStopped)
	require.Zero(t, s.Stats())
	require.ErrorIs(t, replay(s, 1, records[0]), ErrStopped)
}

// TestAStandbyForgetsWhatItsDatabaseHas checks that it forgets the longest closed orders first, and keeps all
// others.
func TestAStandbyForgetsWhatItsDatabaseHas(t *testing.T) {
	m, db := open(t, Options{}), &database{}
	m.all(sell("A", 1, 5), sell("A", 1, 5), sell("B", 1, 5), buy("A", 1, 1), buy("A", 1, 5)) // closes orders 1 and 5
	m.cancelAll("2", "")                                                                     // closes orders 2 and 3
	filled, canceled := m.journal.Appended()-1, m.journal.Appended()
	for range 3 {
		m.do(exchange.Command{Kind: exchange.OpenAccount, Account: exchange.AccountID(fmt.Sprint(m.journal.Appended()))})
	}
	records := m.records(m.journal.Appended())
	for _, begun := range []uint64{0, canceled} { // starts before and after the orders closed
		state := exchange.NewState()
		for _, record := range records[:begun] {
			var e exchange.Event
			require.NoError(t, exchange.DecodeEvent(record, &e))
			require.NoError(t, state.Apply(&e))
		}
		db.applied.Store(0)
		s := NewStandby(StandbyOptions{State: state, Seq: begun, Projection: db, ClosedOrdersMax: 1})
		apply := func(seq uint64) int64 {
			require.NoError(t, replay(s, seq, records[seq-1]))
			return s.Stats().ClosedOrders
		}
		for seq := begun + 1; seq <= canceled; seq++ {
			apply(seq)
		}
		require.EqualValues(t, 4, s.Stats().ClosedOrders)
		db.applied.Store(filled)
		want := int64(2)
		if begun == canceled {
			want = 4 // the standby does not know which record closed the orders: it may have been the last one
		}
		require.Equal(t, want, apply(canceled+1), "the database lacks the last two")
		db.applied.Store(canceled)
		require.EqualValues(t, 1, apply(canceled+2))
		s.SetLimits(Limits{ClosedOrdersMax: 2, BacklogMax: 1})
		require.EqualValues(t, 1, apply(canceled+3))
		require.NoError(t, s.state.Audit())
		s.Close()
		require.ErrorIs(t, s.Apply(canceled+4, new(exchange.Event)), ErrStopped)
	}
}

func TestAStandbyThatLagsCannotBeTakenOver(t *testing.T) {
	m := open(t, Options{})
	s := NewStandby(StandbyOptions{State: exchange.NewState()})
	defer s.Close()
	require.NoError(t, replay(s, 1, m.records(1)[0]))
	require.PanicsWithValue(t, "engine: a standby at record 1 cannot take over a log with 6 records: <nil>",
		func() { New(Options{Journal: m.journal, Standby: s}) })
}

// TestAStandbyShowsNothingOfLater: it shows no order accepted after its last record, even if its database has the
// order.
func TestAStandbyShowsNothingOfLater(t *testing.T) {
	m, db := open(t, Options{OrdersAfter: 10}), &database{}
	require.EqualValues(t, 11, m.do(buy("A", 1, 1)).Order)
	s := NewStandby(StandbyOptions{State: exchange.NewState(), Projection: db, History: db})
	defer s.Close()
	for n, record := range m.records(m.journal.Appended()) {
		require.NoError(t, replay(s, uint64(n+1), record))
	}
	for accepted, want := range map[uint64]bool{s.Seq(): true, s.Seq() + 1: false} {
		db.orders.Store(exchange.OrderID(5), exchange.ClosedOrder{Seq: accepted})
		_, found, err := s.Show(background, 5, 0, 1)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
}

// TestAStandbyKeepsTheRefsThatItsDatabaseDoesNotHave also checks that it drops other refs from memory.
func TestAStandbyKeepsTheRefsThatItsDatabaseDoesNotHave(t *testing.T) {
	m := open(t, Options{})
	var orders []exchange.Command
	for n := range 5 * sweepRecords {
		orders = append(orders, named(exchange.Ref(fmt.Sprint("r", n)), buy("A", 1, 1)))
	}
	want := m.all(orders...)
	lacks, has := &database{}, &database{}
	next := m.takeOver(m.journal.Appended(), Options{Projection: lacks, History: lacks, RefsMax: 40})
	require.Equal(t, want, next.all(orders...))
	has.project(t, m.records(m.journal.Appended()), 0)
	next = m.takeOver(m.journal.Appended(), Options{Projection: has, History: has, RefsMax: 40})
	require.Less(t, next.Stats().Refs, int64(3*sweepRecords+1), "generations of the last sweep stay in memory")
	require.Equal(t, want, next.all(orders...))
}
