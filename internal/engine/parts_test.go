package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// inParts returns a market whose orders execute in parts of two fills.
func inParts(t *testing.T, o Options) *market {
	m := openWith(t, o, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
	m.index.FillsMax = 2
	return m
}

// after returns a market as after a crash of m: its journal ends with record seq. With a full
// disk no further segment can be made.
func (m *market) after(seq uint64, fullDisk bool) *market {
	m.t.Helper()
	return m.afterWith(seq, fullDisk, func(j *journal.Journal) Log { return j })
}

// afterWith is after, with the journal wrapped by wrap.
func (m *market) afterWith(seq uint64, fullDisk bool, wrap func(*journal.Journal) Log) *market {
	m.t.Helper()
	require.NoError(m.t, m.journal.Wait(background, seq))
	dir := filepath.Join(m.t.TempDir(), "again")
	j, err := journal.Open(dir, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
	require.NoError(m.t, err)
	state := exchange.NewState()
	state.Index.FillsMax = m.index.FillsMax
	enough := errors.New("enough")
	err = journal.Scan(m.dir, exchange.EventVersion, func(n uint64, record []byte) error {
		if n > seq {
			return enough
		}
		var e exchange.Event
		require.NoError(m.t, exchange.DecodeEvent(record, &e))
		require.NoError(m.t, state.Apply(&e))
		_, err := j.Append(record)
		return err
	})
	if !errors.Is(err, enough) {
		require.NoError(m.t, err)
	}
	require.NoError(m.t, j.Wait(background, seq))
	again := &market{nil, m.t, j, dir}
	if fullDisk {
		again.fillDisk()
	}
	again.Engine = New(Options{Journal: wrap(j), State: state, Now: m.options.Now})
	m.t.Cleanup(func() {
		again.Close()
		j.Close()
	})
	for _, d := range *again.numbered.Load() { // wait until unfinished orders are finished, if there is room
		require.NoError(m.t, again.call(background, &d.inbox, func() error { return nil }))
	}
	return again
}

// TestAnOrderExecutesInParts checks each record of an order, and restarts from a crash after each record: the
// result must be the same.
func TestAnOrderExecutesInParts(t *testing.T) {
	m := inParts(t, Options{})
	for n := range 7 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, exchange.Price(5+n%2))).Reason)
	}
	first := m.journal.Appended() + 1
	order := buy("A", 9, 6)
	order.Ref = "r"
	require.Equal(t, exchange.Result{Order: 8}, m.do(order))
	events := m.events(first)
	require.Len(t, events, 4)
	open := exchange.Shares(9)
	for n, e := range events {
		kind, ref := exchange.OrderContinued, exchange.Ref("")
		if n == 0 {
			kind, ref = exchange.OrderAccepted, "r"
		}
		fills := min(2, 7-2*n)
		require.Len(t, e.Fills, fills)
		e.Fills = nil
		require.Equal(t, exchange.Event{Kind: kind, Time: 77, Account: "1", Symbol: "A", Order: 8,
			Terms:  exchange.Terms{Side: exchange.Buy, Limit: 6},
			Shares: open, Before: 2 * n, Ref: ref}, e)
		open -= exchange.Shares(fills)
	}
	status := m.do(queryOf(8)).Status
	require.Equal(t, exchange.Shares(2), status.Open)
	require.Len(t, status.Executions, 7)
	require.Equal(t, exchange.Result{Order: 8}, m.do(order), "its ref is used")
	m.agrees()
	stats := m.Stats()
	require.Equal(t, int64(1), stats.OpenOrders)
	require.Equal(t, int64(7), stats.ClosedOrders)

	for n := range events {
		again := m.after(first+uint64(n), false)
		got := again.do(queryOf(8))
		require.Equal(t, status, got.Status, "after a crash after part %d", n+1)
		require.Equal(t, events, again.events(first))
		again.agrees()
		require.Equal(t, stats.OpenOrders, again.Stats().OpenOrders)
		require.Equal(t, exchange.OK, again.do(cancelOf(8, "1")).Reason)
	}
}

// TestARefIsUsedWithTheFirstPart: the ref is known as used before the other parts have executed.
func TestARefIsUsedWithTheFirstPart(t *testing.T) {
	var m *market
	var used []bool
	ordered := false
	m = inParts(t, Options{Now: func() int64 {
		if ordered { // called at each part
			m.mu.Lock()
			defer m.mu.Unlock()
			_, found := m.refs.table.Find(m.ledger.Account("1"), "r")
			used = append(used, found)
		}
		return 77
	}})
	for range 6 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	ordered = true
	require.Equal(t, exchange.OK, m.do(named("r", buy("A", 6, 5))).Reason)
	require.Equal(t, []bool{false, true, true}, used[len(used)-3:])
}

// TestPartsDoNotChangeTheResults sends the same random commands to a market with parts and
// to one without.
func TestPartsDoNotChangeTheResults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m, whole := inParts(t, Options{}), open(t, Options{})
	r := rand.New(rand.NewPCG(seed, 0))
	parts := false
	for id := exchange.OrderID(0); id < 1500; {
		sym, shares, limit := exchange.Symbol("AB"[r.IntN(2):][:1]), exchange.Shares(1+r.IntN(64)>>r.IntN(6)),
			exchange.Price(90+r.IntN(8))
		c := buy(sym, shares, limit)
		switch r.IntN(5) {
		case 0, 1:
			c = sell(sym, shares, limit)
		case 2:
			c = cancelOf(1+exchange.OrderID(r.IntN(int(id)+1)), exchange.AccountID("12"[r.IntN(2):][:1]))
		}
		want, got := whole.do(c), m.do(c)
		require.Equal(t, want, got)
		id = max(id, got.Order)
		if got.Order == 0 {
			continue
		}
		status := m.do(queryOf(got.Order)).Status
		require.Equal(t, whole.do(queryOf(got.Order)).Status, status)
		parts = parts || len(status.Executions) > 6
	}
	require.True(t, parts, "an order had several parts")
	m.agrees()
	require.Equal(t, whole.Stats().OpenOrders, m.Stats().OpenOrders)
	require.Equal(t, whole.Stats().ClosedOrders, m.Stats().ClosedOrders)
	m.Close()
	whole.Close()
	require.Equal(t, whole.State().Digest(), m.State().Digest())
	m.Engine, whole.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}),
		New(Options{Journal: whole.journal, State: exchange.NewState()})
}

// TestWithoutRoomNothingIsExecutedBeforeAnUnfinishedOrder starts on a full disk after a part of an order.
func TestWithoutRoomNothingIsExecutedBeforeAnUnfinishedOrder(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 { // more than fit into the segments that exist
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.OK, m.do(buy("A", 4000, 5)).Reason)
	require.Len(t, m.events(first), 2000)
	require.NoError(t, m.journal.Wait(background, m.journal.Appended()))

	full := m.after(first, true)
	query := full.do(queryOf(4001))
	require.Len(t, query.Status.Executions, 2, "queries work")
	require.Equal(t, exchange.Shares(3998), query.Status.Open)
	appended := full.journal.Appended()
	for c, want := range map[exchange.Command]exchange.RejectReason{
		buy("A", 1, 1):      exchange.NoRoom,
		cancelOf(4001, "1"): exchange.NoRoomToCancel,
		cancelOf(4000, "2"): exchange.NoRoomToCancel,
		{Kind: exchange.DepositShares, Symbol: "A", Account: "1", Deposited: exchange.Shares(1).Position()}: exchange.NoRoom,
	} {
		require.Equal(t, want, full.do(c).Reason, c)
	}
	require.Equal(t, exchange.NoRoomToCancel, full.halt("A", "").Reason)
	require.Equal(t, exchange.NoRoomToCancel, full.cancelAll("1", "").Reason)
	require.Equal(t, appended, full.journal.Appended(), "nothing has changed")
	full.freeDisk()
	require.Equal(t, exchange.OK, full.do(buy("A", 1, 1)).Reason)
	require.Len(t, full.do(queryOf(4001)).Status.Executions, 4000)
	full.agrees()
}

// TestAnOrderWithoutRoomForAllItsPartsIsRefusedWhole places an order in parts on an almost full disk.
func TestAnOrderWithoutRoomForAllItsPartsIsRefusedWhole(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	require.Eventually(t, func() bool { return m.journal.RoomBytes() > 1<<16 }, time.Minute, time.Millisecond,
		"the next segment is ready: the last order has room")
	m.fillDisk()
	before := m.Stats()
	require.Equal(t, exchange.Result{Reason: exchange.NoRoom}, m.do(buy("A", 4000, 5)))
	require.Equal(t, before, m.Stats(), "nothing has changed")
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 5)).Reason, "other orders are not rejected because of it")
	m.freeDisk()
	require.Eventually(t, func() bool { return m.do(buy("A", 3999, 5)).Reason == exchange.OK }, time.Minute,
		time.Millisecond)
	m.agrees()
	require.Zero(t, m.Stats().OpenOrders)
}

// TestAnOrderGivesBackTheRoomThatItDoesNotUse places an order that claims far more parts than it needs.
func TestAnOrderGivesBackTheRoomThatItDoesNotUse(t *testing.T) {
	m := inParts(t, Options{})
	for range 5000 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 900)).Reason)
	}
	m.all(sell("A", 1, 5), sell("A", 1, 5), sell("A", 1, 5))
	require.Equal(t, exchange.OK, m.do(buy("A", 5000, 5)).Reason)
	require.NoError(t, m.journal.Wait(background, m.journal.Appended()))
	require.Greater(t, m.journal.RoomBytes(), int64(1<<20), "the segments made for it are free")
}

// blockingClock is a clock that, once it is armed, blocks in the middle of an order in parts until release is called.
type blockingClock struct {
	armed         atomic.Bool
	looks         atomic.Int64 // calls since it was armed; each part makes one
	stands, going chan struct{}
	release       func()
}

// inPartsWithBlockingClock is inParts with a blockingClock and 1000 shares for sale at 5 each.
func inPartsWithBlockingClock(t *testing.T) (*market, *blockingClock) {
	t.Helper()
	s := &blockingClock{stands: make(chan struct{}), going: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.going) })
	m := inParts(t, Options{Now: func() int64 {
		if s.armed.Load() && s.looks.Add(1) == 10 {
			close(s.stands)
			<-s.going
		}
		return 77
	}})
	t.Cleanup(s.release) // runs before the engine is closed
	for range 1000 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	return m, s
}

// buyAll starts an order for the shares for sale, and returns once it is blocked by the clock.
func (s *blockingClock) buyAll(m *market) (ended <-chan error) {
	s.armed.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := m.Execute(background, []exchange.Command{buy("A", 1000, 5)}, make([]exchange.Result, 1))
		done <- err
	}()
	<-s.stands
	return done
}

// TestAStopInTheMiddleOfAnOrderIsNoFailure closes an engine between two parts. The next engine
// finishes the order.
func TestAStopInTheMiddleOfAnOrderIsNoFailure(t *testing.T) {
	m, clock := inPartsWithBlockingClock(t)
	ended, closed := clock.buyAll(m), make(chan struct{})
	go func() { m.Close(); close(closed) }()
	require.Eventually(t, m.closing, time.Minute, time.Millisecond)
	clock.release()
	<-closed
	require.ErrorIs(t, <-ended, ErrStopped)
	require.False(t, m.failed.Load())
	require.NotZero(t, m.State().Books["A"].Unfinished())
	require.NoError(t, m.State().Audit())
	again := m.after(m.journal.Appended(), false)
	require.Len(t, again.do(queryOf(1001)).Status.Executions, 1000)
	again.agrees()
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()})
}

// TestTheTimesOfASymbolNeverGoBack uses a clock that goes back.
func TestTheTimesOfASymbolNeverGoBack(t *testing.T) {
	clock := int64(10_000)
	m := inParts(t, Options{Now: func() int64 { clock -= 7; return clock }})
	for range 5 {
		m.do(sell("A", 1, 5))
	}
	m.do(buy("A", 4, 5))
	m.do(cancelOf(5, "2"))
	m.halt("A", "")
	m.resume("A")
	m.do(buy("A", 1, 1))
	m.cancelAll("1", "A")
	m.do(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "1",
		Deposited: exchange.Shares(1).Position()})
	times := map[exchange.EventKind]int64{}
	var latest int64
	for _, e := range m.events(1) {
		if e.Symbol == "A" || e.Kind == exchange.OrdersCanceled {
			require.GreaterOrEqual(t, e.Time, latest, fmt.Sprint(e.Kind))
			latest = e.Time
			times[e.Kind]++
		}
	}
	require.Len(t, times, 8, "records of all kinds except those of accounts")
}

// TestAShardLivesWhileTheJournalStands stops all syncs in the middle of an order, as a full disk does: reads,
// liveness checks and a stop still work.
func TestAShardLivesWhileTheJournalStands(t *testing.T) {
	var stands atomic.Bool
	goesOn := make(chan struct{})
	m := openWith(t, Options{},
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16, OnSync: func(int, int, time.Duration) {
			if stands.Load() {
				<-goesOn
			}
		}})
	m.index.FillsMax = 2
	const resting = 1000
	for range resting {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	require.NoError(t, m.journal.Wait(background, m.journal.Appended()))
	stands.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, err := m.Execute(background, []exchange.Command{buy("A", resting, 5)}, make([]exchange.Result, 1))
		ended <- err
	}()
	require.Eventually(t, func() bool {
		return m.journal.Appended()-m.journal.Synced() >= partsUnsyncedMax
	}, time.Minute, time.Millisecond)
	require.NoError(t, m.isAlive())
	require.NotZero(t, m.do(queryOf(resting+1)).Status.Open)
	m.Close()
	require.ErrorIs(t, <-ended, ErrStopped)
	close(goesOn)
	again := m.after(m.journal.Appended(), false)
	require.Len(t, again.do(queryOf(resting+1)).Status.Executions, resting)
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()})
}

// TestAShardDoesNotKeepTheMemoryOfALongOrder checks the shard's memory after the order.
func TestAShardDoesNotKeepTheMemoryOfALongOrder(t *testing.T) {
	m := open(t, Options{})
	const resting = 2 * exchange.FillsMax
	for range resting {
		m.do(sell("A", 1, 5))
	}
	require.Equal(t, exchange.OK, m.do(buy("A", resting, 5)).Reason)
	d, record, fills := m.shard("A"), 0, 0
	require.NoError(t, m.call(background, &d.inbox, func() error {
		record, fills = cap(d.record), cap(d.fills)
		return nil
	}))
	require.LessOrEqual(t, record, scratchKeep)
	require.LessOrEqual(t, fills, 512)
}

// TestPartsFitIntoTheSmallestSegments uses the smallest segments that --segment accepts. A reader
// of the journal need not know how large the parts were.
func TestPartsFitIntoTheSmallestSegments(t *testing.T) {
	m := openWith(t, Options{}, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
	const resting = exchange.FillsMax + 100
	for range resting {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.OK, m.do(buy("A", resting+1, 5)).Reason)
	require.Len(t, m.do(queryOf(resting+1)).Status.Executions, resting)
	events := m.events(first)
	require.Greater(t, len(events), 4)
	for _, e := range events[:len(events)-1] {
		require.GreaterOrEqual(t, len(e.Fills), exchange.PartFillsMin)
		require.LessOrEqual(t, len(e.Fills), exchange.PartFillsFor(m.journal.ClaimBytesMax()))
	}
	m.index.FillsMax = 0 // as at a start, before the segment size is known
	m.agrees()
	again := m.after(first+2, false)
	require.Len(t, again.do(queryOf(resting+1)).Status.Executions, resting)
	again.agrees()
}

// guarded is a journal whose claims a test can observe and refuse.
type guarded struct {
	*journal.Journal
	claimMany func(records, bytes int) (<-chan struct{}, error) // called first; the journal claims if both are nil
	forgone   atomic.Int64
}

func (g *guarded) ClaimMany(records, bytes int) (<-chan struct{}, error) {
	if g.claimMany != nil {
		if wait, err := g.claimMany(records, bytes); wait != nil || err != nil {
			return wait, err
		}
	}
	return g.Journal.ClaimMany(records, bytes)
}

func (g *guarded) Forgo() {
	g.forgone.Add(1)
	g.Journal.Forgo()
}

// TestRoomIsForgoneIfTheFundsAreSpentDuringTheWait makes an order in parts wait for segments, while another order of
// its account spends all cash.
func TestRoomIsForgoneIfTheFundsAreSpentDuringTheWait(t *testing.T) {
	m := inParts(t, Options{})
	for range 6 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	asked, waits := make(chan struct{}, 1000), make(chan struct{})
	g := &guarded{Journal: m.journal, claimMany: func(int, int) (<-chan struct{}, error) {
		asked <- struct{}{}
		return waits, nil
	}}
	m.log = g
	order := m.later(buy("A", 6, 5))
	<-asked
	const all = 1000 * 1000
	require.Equal(t, exchange.OK, m.do(buy("B", all, 1)).Reason)
	close(waits)
	require.Equal(t, exchange.InsufficientFunds, (<-order)[0].Reason)
	require.EqualValues(t, 1, g.forgone.Load(), "no segments are made ahead for an order that was rejected")
	m.agrees()
}

// TestAnUnfinishedOrderIsFinishedHoweverMuchRoomItsPartsTake uses a journal that refuses claims of more than three
// parts, and later all claims.
func TestAnUnfinishedOrderIsFinishedHoweverMuchRoomItsPartsTake(t *testing.T) {
	m := inParts(t, Options{})
	const resting = 40
	for range resting {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.OK, m.do(buy("A", resting, 5)).Reason)
	var most atomic.Int64
	again := m.afterWith(first, false, func(j *journal.Journal) Log {
		return &guarded{Journal: j, claimMany: func(records, _ int) (<-chan struct{}, error) {
			if records > int(most.Load()) {
				return nil, journal.ErrTooLarge
			}
			return nil, nil
		}}
	})
	require.Equal(t, exchange.TooManyFills, again.do(buy("A", 1, 1)).Reason)
	require.Equal(t, exchange.TooManyFills, again.cancelAll("1", "").Reason)
	require.Len(t, again.do(queryOf(resting+1)).Status.Executions, 2, "nothing has changed")
	most.Store(3)
	require.Equal(t, exchange.OK, again.do(buy("A", 1, 1)).Reason)
	require.Len(t, again.do(queryOf(resting+1)).Status.Executions, resting)
	again.agrees()
}

// TestAnUnfinishedOrderWithoutAJournalIsAFailure: the commands are not rejected for lack of room but fail, so that
// no result is sent.
func TestAnUnfinishedOrderWithoutAJournalIsAFailure(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 { // more than fit into the segments that exist
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.OK, m.do(buy("A", 4000, 5)).Reason)

	full := m.after(first, true)
	require.Equal(t, exchange.NoRoom, full.do(buy("A", 1, 1)).Reason)
	require.NoError(t, full.journal.Close())
	for _, c := range []exchange.Command{buy("A", 1, 1), cancelOf(4001, "1")} {
		_, err := full.Execute(background, []exchange.Command{c}, make([]exchange.Result, 1))
		require.Error(t, err, "%v", c)
	}
}

// TestAnOrderThatLosesItsJournalBetweenTwoPartsFails: later commands fail too, because the book has changes that
// are in no record.
func TestAnOrderThatLosesItsJournalBetweenTwoPartsFails(t *testing.T) {
	m, clock := inPartsWithBlockingClock(t)
	ended := clock.buyAll(m)
	require.NoError(t, m.journal.Close())
	clock.release()
	require.Error(t, <-ended)
	_, err := m.Execute(background, []exchange.Command{queryOf(1001)}, make([]exchange.Result, 1))
	require.Error(t, err, "even a query fails: no result may be sent any more")
}
