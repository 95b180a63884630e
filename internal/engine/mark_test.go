package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// sharedLog is a journal that acts as a log on several machines. A test confirms its
// rounds.
type sharedLog struct {
	*journal.Journal

	mu        sync.Mutex
	begun     uint64 // number of rounds asked for
	confirmed uint64
	deposed   error
	changed   chan struct{} // closed and replaced at each change
}

func newSharedLog(j *journal.Journal) *sharedLog {
	return &sharedLog{Journal: j, changed: make(chan struct{})}
}

func (l *sharedLog) Round() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	return l.begun
}

// set confirms rounds, or deposes the leader.
func (l *sharedLog) set(confirmed uint64, deposed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed, l.deposed = confirmed, deposed
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *sharedLog) Confirmed(seq, round uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deposed == nil && l.Synced() >= seq && l.confirmed >= round
}

func (l *sharedLog) WaitConfirmed(ctx context.Context, seq, round uint64) error {
	for {
		l.mu.Lock()
		err, done, changed := l.deposed, l.confirmed >= round, l.changed
		l.mu.Unlock()
		switch {
		case err != nil:
			return err
		case done:
			return l.Wait(ctx, seq)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *sharedLog) NotifyConfirmed(seq, round uint64, wake chan<- struct{}) {
	go func() {
		if l.WaitConfirmed(background, seq, round) == nil {
			l.Notify(seq, wake)
		}
	}()
}

// openShared is open with a sharedLog. None of its rounds is confirmed.
func openShared(t *testing.T, o Options) (*market, *sharedLog) {
	t.Helper()
	m := openWith(t, Options{}, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 20})
	m.Close()
	log := newSharedLog(m.journal)
	o.Journal, o.State = log, m.State()
	o.Now = func() int64 { return 77 }
	m.Engine = New(o)
	return m, log
}

// TestReadsWaitUntilTheLeaderIsConfirmed: the record of a frame's last command
// confirms all earlier reads of the frame once it is durable. The record
// of an earlier command does not: the machine may have been stopped after it and lost the lead.
func TestReadsWaitUntilTheLeaderIsConfirmed(t *testing.T) {
	db := &database{}
	m, log := openShared(t, Options{Projection: db, History: db})
	mark := func(commands ...exchange.Command) Mark {
		results := make([]exchange.Result, len(commands))
		mark, err := m.Execute(background, commands, results)
		require.NoError(t, err)
		require.Equal(t, m.journal.Appended(), mark.Seq)
		return mark
	}
	symbol := func(s exchange.Symbol) exchange.Command {
		return exchange.Command{Kind: exchange.MakeSymbol, Symbol: s}
	}
	account := func(id exchange.AccountID) exchange.Command {
		return exchange.Command{Kind: exchange.OpenAccount, Account: id}
	}
	deposit := place3("A", 5)
	query, none := queryOf(1), exchange.Command{Kind: exchange.QueryOrder, Account: "9", Order: 1}
	rejected := buy("A", 1_000_000, 1_000_000)

	m.all(buy("A", 1, 1), buy("A", 1, 1), buy("A", 1, 1), buy("A", 1, 1), buy("A", 1, 1), buy("A", 1, 1)) // 1 to 6
	for _, c := range []struct {
		what  string
		reads bool
		frame []exchange.Command
	}{
		{"an order", false, []exchange.Command{buy("A", 1, 1)}},
		{"an order with a ref", false, []exchange.Command{named("once", buy("A", 1, 1))}},
		{"its repeat", true, []exchange.Command{named("once", buy("A", 1, 1))}},
		{"its ref for something else", true, []exchange.Command{named("once", buy("A", 2, 1))}},
		{"a cancel by ref", false, []exchange.Command{cancelRef("1", "once")}},
		{"a cancel of what is canceled", true, []exchange.Command{cancelRef("1", "once")}},
		{"a cancel", false, []exchange.Command{cancelOf(1, "1")}},
		{"an account", false, []exchange.Command{account("3")}},
		{"an existing account", true, []exchange.Command{account("3")}},
		{"shares", false, []exchange.Command{deposit}},
		{"their repeat", true, []exchange.Command{deposit}},
		{"a symbol", false, []exchange.Command{symbol("C")}},
		{"an existing symbol", true, []exchange.Command{symbol("C")}},
		{"a query", true, []exchange.Command{query}},
		{"a query without an owner", true, []exchange.Command{none}},
		{"a query by ref", true, []exchange.Command{queryRef("1", "once")}},
		{"a rejection", true, []exchange.Command{rejected}},
		{"an unknown symbol", true, []exchange.Command{buy("NONE", 1, 1)}},
		{"query, order", false, []exchange.Command{query, buy("A", 1, 1)}},
		{"rejection, order of another symbol", false, []exchange.Command{rejected, buy("B", 1, 1)}},
		{"order, query", true, []exchange.Command{buy("A", 1, 1), query}},
		{"order, query without an owner", true, []exchange.Command{buy("A", 1, 1), none}},
		{"order, rejection", true, []exchange.Command{buy("A", 1, 1), rejected}},
		{"order, repeat", true, []exchange.Command{buy("A", 1, 1), named("once", buy("A", 1, 1))}},
		{"order, existing symbol", true, []exchange.Command{buy("A", 1, 1), symbol("C")}},
		{"order, existing account", true, []exchange.Command{buy("A", 1, 1), account("3")}},
		{"order, unknown symbol", true, []exchange.Command{buy("A", 1, 1), buy("NONE", 1, 1)}},
		{"order, order of another symbol", false, []exchange.Command{buy("A", 1, 1), buy("B", 1, 1)}},
		{"nothing", true, nil},
	} {
		before := log.begun
		got := mark(c.frame...)
		if c.reads {
			require.Equal(t, before+1, got.Round, c.what)
		} else {
			require.Zero(t, got.Round, c.what)
			require.Equal(t, before, log.begun, c.what)
		}
	}
}

// TestAnOrderInPartsIsConfirmedByItsRecords: its result needs no round.
func TestAnOrderInPartsIsConfirmedByItsRecords(t *testing.T) {
	m, _ := openShared(t, Options{})
	for range exchange.FillsMax + 10 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	results := make([]exchange.Result, 1)
	mark, err := m.Execute(background, []exchange.Command{buy("A", exchange.FillsMax+10, 5)}, results)
	require.NoError(t, err)
	require.Equal(t, Mark{Seq: m.journal.Appended()}, mark)
}

func TestNoResultIsSentBeforeItIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := openShared(t, Options{})
		results := make([]exchange.Result, 1)
		mark, err := m.Execute(background, []exchange.Command{queryOf(1)}, results)
		require.NoError(t, err)
		require.False(t, m.IsDurable(mark), "durable records are not enough")
		wake, durable := make(chan struct{}, 1), make(chan error, 1)
		m.Notify(mark, wake)
		go func() { durable <- m.Durable(background, mark) }()
		synctest.Wait()
		require.Empty(t, wake)
		require.Empty(t, durable)
		log.set(mark.Round, nil)
		<-wake
		require.NoError(t, <-durable)
		require.True(t, m.IsDurable(mark))

		mark, err = m.Execute(background, []exchange.Command{queryOf(1)}, results)
		require.NoError(t, err)
		require.False(t, m.IsDurable(mark), "an earlier round is not enough")
		go func() { durable <- m.Durable(background, mark) }()
		synctest.Wait()
		log.set(mark.Round, errors.New("another machine leads"))
		require.ErrorContains(t, <-durable, "another machine leads")
		require.False(t, m.IsDurable(mark))
		log.set(1000, nil) // so that the test can end
	})
}

// TestResultsOfOperatorsAreConfirmed: each call of an operator waits for a new round or, if it
// appended a record, only for that record.
func TestResultsOfOperatorsAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := openShared(t, Options{})
		ended := make(chan error, 1)
		for _, c := range []struct {
			what  string
			reads bool
			call  func() error
		}{
			{"an order", true, func() error { _, _, err := m.Show(background, 1, 0, 1); return err }},
			{"a halt", false, func() error { _, err := m.Halt(background, "A", ""); return err }},
			{"a repeated halt", true, func() error { _, err := m.Halt(background, "A", ""); return err }},
			{"a halt of an unknown symbol", true, func() error { _, err := m.Halt(background, "NONE", ""); return err }},
			{"a resume", false, func() error { _, err := m.Resume(background, "A"); return err }},
			{"a resume of what is not halted", true, func() error { _, err := m.Resume(background, "A"); return err }},
			{"a cancel of nothing", true, func() error { _, err := m.CancelAll(background, "1", ""); return err }},
			{"a cancel of an unknown account", true, func() error { _, err := m.CancelAll(background, "9", ""); return err }},
			{"an order to cancel", false, func() error { return m.Durable(background, m.marks(buy("A", 1, 1))) }},
			{"a cancel of all", false, func() error { _, err := m.CancelAll(background, "1", ""); return err }},
			{"halts", true, func() error { m.Halts(); return m.Confirm(background) }},
			{"figures", true, func() error { m.Stats(); return m.Durable(background, m.Mark()) }},
		} {
			before := log.begun
			go func() { ended <- c.call() }()
			if c.reads {
				synctest.Wait()
				require.Empty(t, ended, c.what)
				require.Equal(t, before+1, log.begun, c.what)
				log.set(log.begun, nil)
			}
			require.NoError(t, <-ended, c.what)
			if !c.reads {
				require.Equal(t, before, log.begun, c.what)
			}
		}
	})
}

// marks executes commands and returns their mark.
func (m *market) marks(commands ...exchange.Command) Mark {
	mark, err := m.Execute(background, commands, make([]exchange.Result, len(commands)))
	require.NoError(m.t, err)
	return mark
}

// TestOneMachineConfirmsNothing: on one machine the Round of marks is 0.
func TestOneMachineConfirmsNothing(t *testing.T) {
	m := open(t, Options{})
	m.Halts()
	require.NoError(t, m.Confirm(background))
	require.Equal(t, Mark{Seq: m.journal.Appended()}, m.marks(queryOf(1)))
	require.Equal(t, Mark{Seq: m.journal.Appended()}, m.Mark())
}

// TestTheRestOfAnotherOrderConfirmsNothing: a command first finishes an order that a crash had left unfinished, and
// is then rejected. The rejection was read after the records of that order, so it needs a round.
func TestTheRestOfAnotherOrderConfirmsNothing(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 { // more than fit into the segments that exist
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.OK, m.do(buy("A", 4000, 5)).Reason)
	full := m.afterWith(first, true, func(j *journal.Journal) Log { return newSharedLog(j) })
	full.freeDisk()
	appended := full.journal.Appended()
	mark := full.marks(buy("A", 1_000_000, 1_000_000))
	require.Greater(t, full.journal.Appended(), appended, "the unfinished order was finished")
	require.NotZero(t, mark.Round)
}

// TestIsDurableIncludesPostgres: IsDurable never reports true before
// Durable, which waits for Postgres, would return.
func TestIsDurableIncludesPostgres(t *testing.T) {
	for ackPostgres, want := range map[bool]bool{false: true, true: false} {
		m := open(t, Options{Projection: &database{}, AckPostgres: ackPostgres})
		mark, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
		require.NoError(t, err)
		require.False(t, m.IsDurable(Mark{Seq: mark.Seq + 1}), "a record that does not exist yet")
		require.NoError(t, m.journal.Wait(background, mark.Seq))
		require.Equal(t, want, m.IsDurable(mark))
		ended, cancel := context.WithCancel(background)
		cancel()
		require.Equal(t, want, m.Durable(ended, mark) == nil)
	}
}

// TestACancelAllReturnsOnceItIsDurable: with AckPostgres, a cancel-all waits for Postgres too.
func TestACancelAllReturnsOnceItIsDurable(t *testing.T) {
	m := open(t, Options{Projection: &database{}, AckPostgres: true})
	_, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
	require.NoError(t, err)
	before := m.journal.Appended()
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() {
		_, err := m.CancelAll(ctx, "1", "")
		ended <- err
	}()
	require.Eventually(t, func() bool { return m.journal.Appended() == before+1 }, time.Minute, time.Microsecond)
	require.Eventually(t, func() bool { return m.Stats().OpenOrders == 0 }, time.Minute, time.Microsecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
