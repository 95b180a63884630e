package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/budget"
)

// named gives a command a ref.
func named(ref exchange.Ref, c exchange.Command) exchange.Command {
	c.Ref = ref
	return c
}

func queryRef(account exchange.AccountID, ref exchange.Ref) exchange.Command {
	return exchange.Command{Kind: exchange.QueryOrder, Account: account, Ref: ref}
}

func cancelRef(account exchange.AccountID, ref exchange.Ref) exchange.Command {
	return exchange.Command{Kind: exchange.CancelOrder, Account: account, Ref: ref}
}

func open3(balance exchange.Cash) exchange.Command {
	return exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: balance, Ref: "open"}
}

func place3(sym exchange.Symbol, shares exchange.Shares) exchange.Command {
	return exchange.Command{Kind: exchange.DepositShares, Account: "3", Symbol: sym,
		Deposited: shares.Position(), Ref: "place"}
}

func reasonsOf(results []exchange.Result) (reasons []string) {
	for i := range results {
		reasons = append(reasons, results[i].Reason.String())
	}
	return reasons
}

func TestACommandThatIsRepeatedIsAnsweredAgainAndNotDoneAgain(t *testing.T) {
	m := open(t, Options{})
	first := []exchange.Command{open3(exchange.Cash{Lo: 5}), place3("A", 9), named("o", sell("A", 4, 5)),
		named("o", buy("B", 2, 3))}
	want := m.all(first...)
	require.Equal(t, []exchange.Result{{}, {}, {Order: 1}, {Order: 2}}, want)
	appended := m.journal.Appended()
	require.Equal(t, want, m.all(first...))
	require.Equal(t, want[2], m.do(first[2]))
	require.Equal(t, appended, m.journal.Appended(), "no record was appended")
	require.EqualValues(t, 5, m.Stats().RefsRepeated)

	require.Equal(t, []string{"ref_used", "ref_used", "ref_used", "ref_used", "ref_used", "ref_used", "account_exists"},
		reasonsOf(m.all(
			open3(exchange.Cash{Lo: 6}), place3("A", 8), place3("B", 9), named("place",
				exchange.Command{Kind: exchange.PlaceOrder, Account: "3", Symbol: "A",
					Terms: exchange.Terms{Side: exchange.Sell, Limit: 1}, Shares: 9}),
			named("o", sell("A", 4, 6)), named("o", sell("B", 4, 5)), exchange.Command{Kind: exchange.OpenAccount, Account: "1",
				Ref: "late"})))
	require.Equal(t, exchange.UnknownAccount, m.do(named("o", exchange.Command{Kind: exchange.PlaceOrder, Account: "9",
		Symbol: "A", Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}, Shares: 1})).Reason)
	require.Equal(t, appended, m.journal.Appended())
}

func TestARefusalDoesNotUseUpARef(t *testing.T) {
	m := open(t, Options{})
	require.Equal(t, exchange.InsufficientFunds, m.do(named("r", buy("A", 1_000_000, 5))).Reason)
	require.Equal(t, exchange.UnknownOrder, m.do(queryRef("1", "r")).Reason)
	require.Equal(t, exchange.Result{Order: 1}, m.do(named("r", buy("A", 1, 5))))
	require.Equal(t, exchange.UnknownAccount, m.do(place3("A", 5)).Reason)
	require.Equal(t, exchange.OK, m.do(open3(exchange.Cash{})).Reason)
	require.Equal(t, exchange.OK, m.do(place3("A", 5)).Reason)
	require.EqualValues(t, 3, m.Stats().Refs)
}

// TestARepeatIsAnsweredThoughNothingNewIsTaken: a repeat changes nothing, so it needs no admission.
func TestARepeatIsAnsweredThoughNothingNewIsTaken(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, BacklogMax: 20})
	for n := range 14 {
		require.Equal(t, exchange.OK, m.do(named(exchange.Ref(fmt.Sprint("r", n)), buy("A", 1, 1))).Reason)
	}
	require.Equal(t, []string{"database_behind", "ok", "ref_used"},
		reasonsOf(m.all(named("new", buy("A", 1, 1)), named("r0", buy("A", 1, 1)), named("r1", buy("A", 2, 1)))))
}

func TestOrdersAreNamedByTheirRefs(t *testing.T) {
	m := open(t, Options{})
	got := m.all(named("s", sell("A", 10, 5)), named("b", buy("A", 4, 5)), queryRef("2", "s"), queryRef("1", "s"),
		queryRef("1", "b"),
		named("c", buy("B", 3, 1)), cancelRef("1", "c"), cancelRef("1", "c"), queryRef("1", "c"), cancelRef("1", "b"),
		queryRef("9", "b"), cancelRef("2", "none"))
	fill := []exchange.Execution{{Shares: 4, Price: 5, Time: 77}}
	canceled := exchange.Status{Canceled: 3, CanceledAt: 77}
	require.Equal(t, []exchange.Result{
		{Order: 1}, {Order: 2},
		{Order: 1, Status: exchange.Status{Open: 6, Executions: fill}},
		{Reason: exchange.UnknownOrder},
		{Order: 2, Status: exchange.Status{Executions: fill}},
		{Order: 3}, {Order: 3, Status: canceled}, {Order: 3, Reason: exchange.AlreadyCanceled}, {Order: 3, Status: canceled},
		{Order: 2, Reason: exchange.AlreadyExecuted}, {Reason: exchange.UnknownAccount}, {Reason: exchange.UnknownOrder},
	}, got)
}

// TestOneOfManySessionsUsesARef sends each ref from eight sessions at once: with the same
// order, with orders for different symbols, and with deposits.
func TestOneOfManySessionsUsesARef(t *testing.T) {
	m := open(t, Options{})
	const refs, sessions = 150, 8
	orders := [sessions][]exchange.Result{}
	var running sync.WaitGroup
	for s := range sessions {
		running.Go(func() {
			for n := range refs {
				same := named(exchange.Ref(fmt.Sprint("same", n)), sell("A", 1, 5))
				other := named(exchange.Ref(fmt.Sprint("other", n)), sell([]exchange.Symbol{"A", "B"}[s%2],
					exchange.Shares(1+s/4), 5))
				placed := exchange.Command{Kind: exchange.DepositShares, Account: "2", Symbol: []exchange.Symbol{"B", "A"}[s%2],
					Deposited: exchange.Shares(1).Position(), Ref: exchange.Ref(fmt.Sprint("p", n))}
				orders[s] = append(orders[s], m.all(same, other, placed)...)
			}
		})
	}
	running.Wait()
	for n := range refs {
		for kind, want := range []int{sessions, 2, sessions / 2} { // how many sessions send the same command
			var done []exchange.OrderID
			for s := range sessions {
				r := orders[s][3*n+kind]
				if r.Reason == exchange.OK {
					done = append(done, r.Order)
				} else {
					require.Equal(t, exchange.RefUsed, r.Reason)
				}
			}
			require.Len(t, done, want)
			require.Len(t, slices.Compact(done), 1, "all get the same order")
		}
	}
	require.NoError(t, m.journal.Wait(background, m.journal.Appended()))
	used := map[exchange.RefKey]int{}
	require.NoError(t, journal.Scan(m.dir, exchange.EventVersion, func(_ uint64, record []byte) error {
		var e exchange.Event
		if err := exchange.DecodeEvent(record, &e); err != nil || e.Ref == "" {
			return err
		}
		used[exchange.RefKey{Account: e.Account, Ref: e.Ref}]++
		return nil
	}))
	require.Len(t, used, 3*refs)
	for key, times := range used {
		require.Equal(t, 1, times, "%v", key)
	}
}

// TestAnAccountHasItsRefFromItsFirstMoment: a reader that sees the account must also see its ref as used;
// otherwise it could use the ref a second time. The test calls the registrar directly and checks.
func TestAnAccountHasItsRefFromItsFirstMoment(t *testing.T) {
	m := open(t, Options{})
	c := open3(exchange.Cash{Lo: 6})
	var r exchange.Result
	require.NoError(t, m.registrar.openAccount(&c, &r, 77))
	m.mu.Lock()
	use, used := m.refs.table.Find(m.ledger.Account("3"), c.Ref)
	m.mu.Unlock()
	require.True(t, used)
	require.Equal(t, c.Use(), use)
}

// TestARepeatIsAnsweredThoughItsAccountSendsTooMuch: a command that was not executed before is rejected,
// and does not use up the ref.
func TestARepeatIsAnsweredThoughItsAccountSendsTooMuch(t *testing.T) {
	m := open(t, Options{})
	again := func(c exchange.Command) Request { return Request{Command: c, Repeat: true} }
	order, other := named("r", buy("A", 1, 5)), named("s", buy("A", 1, 5))
	require.Equal(t, exchange.Result{Order: 1}, m.do(order))
	require.Equal(t, exchange.Result{Order: 1}, m.ask(again(order)))
	require.Equal(t, exchange.RefUsed, m.ask(again(named("r", buy("A", 2, 5)))).Reason)
	require.Equal(t, exchange.RateExceeded, m.ask(again(other)).Reason)
	require.Equal(t, exchange.RateExceeded, m.ask(again(open3(exchange.Cash{}))).Reason)
	require.Equal(t, exchange.UnknownAccount, m.do(place3("A", 1)).Reason, "it was not opened")
	require.Equal(t, exchange.Result{Order: 2}, m.do(other))
}

// TestNothingIsVisibleOfARefThatIsBeingUsed: while the first command with the ref is in progress, it may still be
// rejected, and its record is not in the journal.
func TestNothingIsVisibleOfARefThatIsBeingUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Options{})
		account := m.ledger.Account("2")
		claim := func(ref exchange.Ref) {
			m.mu.Lock()
			defer m.mu.Unlock()
			require.True(t, m.refs.table.Claim(account, ref))
		}
		results := make(chan exchange.Result, 1)
		send := func(c exchange.Command) {
			go func() { results <- m.do(c) }()
			synctest.Wait()
			require.Empty(t, results, "it waits")
		}
		claim("r")
		require.Equal(t, exchange.UnknownOrder, m.do(queryRef("2", "r")).Reason)
		send(named("r", sell("A", 1, 5)))
		m.mu.Lock()
		m.refs.table.Withdraw(account, "r")
		m.mu.Unlock()
		require.Equal(t, exchange.Result{Order: 1}, <-results)

		claim("p")
		send(named("p", sell("B", 1, 5)))
		m.mu.Lock()
		m.refs.table.Add(account, "p", exchange.RefUse{Kind: exchange.PlaceOrder, Order: 7})
		m.mu.Unlock()
		require.Equal(t, exchange.RefUsed, (<-results).Reason)

		claim("q")
		ended := make(chan error, 1)
		go func() {
			_, err := m.Execute(background, []exchange.Command{named("q", sell("B", 1, 5))}, make([]exchange.Result, 1))
			ended <- err
		}()
		synctest.Wait()
		require.Empty(t, ended, "it waits")
		m.setFailed() // as when the journal fails: waiting commands must end
		require.Error(t, <-ended)
		m.failed.Store(false)
	})
}

// inMemory returns the number of generations in memory, and whether memory has a ref.
func (m *market) inMemory(key exchange.RefKey) (generations int, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found = m.refs.table.Find(m.ledger.Account(key.Account), key.Ref)
	return int(m.refs.table.Last() - m.refs.table.First() + 1), found
}

// project puts all refs in memory into db, as a projector does.
func (m *market) project(db *database) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for number := m.refs.table.First(); number <= m.refs.table.Last(); number++ {
		keys, _ := m.refs.table.Sealed(number)
		for key := range keys {
			use, _ := m.refs.table.Find(m.ledger.Account(key.Account), key.Ref)
			db.refs.Store(key, use)
		}
	}
	db.applied.Store(m.journal.Appended())
}

func TestRefsLeaveMemoryOnceTheyAreProjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{}
		m := open(t, Options{Projection: db, History: db, RefsMax: 40})
		ref := func(n int) exchange.Ref { return exchange.Ref(fmt.Sprint("r", n)) }
		const many = 400
		for n := range many {
			require.Equal(t, exchange.OrderID(n+1), m.do(named(ref(n), buy("A", 1, 1))).Order)
			if n%10 == 0 {
				time.Sleep(2 * sweepEvery)
			}
		}
		require.EqualValues(t, many, m.Stats().Refs, "nothing is projected yet")
		generations, _ := m.inMemory(exchange.RefKey{Account: "1", Ref: "r0"})
		require.Equal(t, 1+sealedMax, generations)
		m.project(db)
		time.Sleep(5 * sweepEvery)
		require.Equal(t, exchange.OrderID(many+1), m.do(named("last", buy("A", 1, 1))).Order)
		m.project(db)
		time.Sleep(5 * sweepEvery)
		require.Less(t, m.Stats().Refs, int64(many))
		_, found := m.inMemory(exchange.RefKey{Account: "1", Ref: "r0"})
		require.False(t, found)
		require.EqualValues(t, 256<<10, m.Stats().RefFilter)

		// Repeats of refs that are only in the database, repeats of refs in memory, and new refs.
		db.orders.Store(exchange.OrderID(1), exchange.ClosedOrder{Account: "1"})
		for n := range many {
			require.Equal(t, exchange.Result{Order: exchange.OrderID(n + 1)}, m.do(named(ref(n), buy("A", 1, 1))))
			require.Equal(t, exchange.RefUsed, m.do(named(ref(n), buy("A", 2, 1))).Reason)
			require.Equal(t, exchange.OrderID(n+1), m.do(queryRef("1", ref(n))).Order)
		}
		asked := db.asked.Load()
		require.Positive(t, asked)
		for n := range many {
			require.Equal(t, exchange.OK, m.do(named(ref(many+n), sell("B", 1, 1))).Reason)
		}
		require.InDelta(t, asked, db.asked.Load(), 2, "the filter excludes the new refs")

		// While the database is away, refs that the filter cannot exclude are rejected, and nothing is executed.
		db.away.Store(true)
		appended := m.journal.Appended()
		require.Equal(t, []string{"ref_unavailable", "ref_unavailable", "ref_unavailable"},
			reasonsOf(m.all(named(ref(0), buy("A", 1, 1)), cancelRef("1", ref(0)), queryRef("1", ref(0)))))
		require.Equal(t, appended, m.journal.Appended())
		require.Equal(t, exchange.OrderID(many+1), m.do(named("last", buy("A", 1, 1))).Order, "it is in memory")
		require.Equal(t, exchange.OK, m.do(named("first", exchange.Command{Kind: exchange.OpenAccount,
			Account: "77"})).Reason, "an account that did not exist has used no refs")
		require.Equal(t, exchange.OK, m.do(named("another one", buy("A", 1, 1))).Reason)
	})
}

// TestADatabaseThatDoesNotAnswerIsAskedOnceAFrame: each attempt may take seconds.
func TestADatabaseThatDoesNotAnswerIsAskedOnceAFrame(t *testing.T) {
	db := &database{}
	db.away.Store(true)
	m := open(t, Options{Projection: db, History: db})
	var large []exchange.Command
	for n := range 2*refsAskedMax + 1 {
		large = append(large, named(exchange.Ref(fmt.Sprint("r", n)), buy("A", 1, 1)))
	}
	for _, r := range m.all(large...) {
		require.Equal(t, exchange.RefUnavailable, r.Reason)
	}
	require.EqualValues(t, 1, db.tries.Load())
}

// TestWhatTheDatabaseHadBeforeIsNotDoneAgain starts with a database that has refs and that is
// unavailable at first.
func TestWhatTheDatabaseHadBeforeIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{}
		db.away.Store(true)
		old := named("old", sell("A", 3, 4))
		use := old.Use()
		use.Order = 1
		db.refs.Store(exchange.RefKey{Account: "2", Ref: "old"}, use)
		m := open(t, Options{Projection: db, History: db})
		require.Equal(t, exchange.RefUnavailable, m.do(old).Reason)
		require.Equal(t, exchange.RefUnavailable, m.do(named("new", sell("A", 3, 4))).Reason, "the filter is incomplete")
		db.away.Store(false)
		require.Equal(t, exchange.Result{Order: 1}, m.do(old))
		require.Equal(t, exchange.OK, m.do(named("new", sell("A", 3, 4))).Reason)
		asked := db.asked.Load()
		time.Sleep(2 * filterRetry)
		require.Equal(t, exchange.OK, m.do(named("newer", sell("A", 3, 4))).Reason)
		require.Equal(t, asked, db.asked.Load(), "the filter is complete")
		require.Equal(t, exchange.Result{Order: 1}, m.do(old))
		require.Equal(t, asked+1, db.asked.Load())
	})
}

// TestWhatEnteredAndLeftMemorySinceTheSessionLookedIsNotDoneAgain delays a command between its session's
// lookup and its owner for longer than memory keeps refs.
func TestWhatEnteredAndLeftMemorySinceTheSessionLookedIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{}
		m := open(t, Options{Projection: db, History: db, RefsMax: 4})
		time.Sleep(sweepEvery)
		c := named("r", sell("A", 1, 5))
		before := m.lookUp(background, requests(c))
		require.Empty(t, before.lookedUp)
		require.Equal(t, exchange.OK, m.do(c).Reason)
		late := func() (r exchange.Result) {
			_, mayDo, _ := m.claimRef(&c, c.Ref, c.Use(), &r, &before)
			require.False(t, mayDo)
			return r
		}
		for n := range 20 {
			require.Contains(t, []string{"ok", "ref_unavailable"}, late().Reason.String(), n)
			m.do(named(exchange.Ref(fmt.Sprint("r", n)), sell("A", 1, 5)))
			m.project(db)
			time.Sleep(2 * sweepEvery)
		}
		_, found := m.inMemory(exchange.RefKey{Account: "2", Ref: "r"})
		require.False(t, found)
		require.Equal(t, exchange.RefUnavailable, late().Reason)
		_, _, reason := m.namedOrder(&exchange.Command{Kind: exchange.QueryOrder, Account: "2", Ref: "r"}, &before)
		require.Equal(t, exchange.RefUnavailable, reason)
		require.Equal(t, exchange.Result{Order: 1}, m.do(c), "a session that looks it up now finds it")
	})
}

// TestASessionThatLookedBeforeTheDatabaseCaughtUpIsSure: the database may catch up with all waiting generations at
// once.
func TestASessionThatLookedBeforeTheDatabaseCaughtUpIsSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{}
		m := open(t, Options{Projection: db, History: db, RefsMax: 4})
		time.Sleep(sweepEvery / 2) // so that the test runs between two sweeps
		for n := range 2 * sealedMax {
			m.do(named(exchange.Ref(fmt.Sprint("r", n)), sell("A", 1, 5)))
			time.Sleep(sweepEvery)
		}
		generations, _ := m.inMemory(exchange.RefKey{Account: "2", Ref: "r0"})
		require.Equal(t, 1+sealedMax, generations)
		c := queryRef("2", "never")
		before := m.lookUp(background, requests(c))
		m.project(db)
		time.Sleep(sweepEvery)
		_, _, reason := m.namedOrder(&c, &before)
		require.Equal(t, exchange.UnknownOrder, reason)
		for range 2 * sealedMax {
			time.Sleep(sweepEvery)
		}
		generations, _ = m.inMemory(exchange.RefKey{Account: "2", Ref: "r0"})
		require.LessOrEqual(t, generations, 2+1, "they are dropped in a later sweep")
	})
}

func TestTheFilterForgetsNothingAndLetsFewPass(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	key := func(n int) exchange.RefKey {
		return exchange.RefKey{Account: exchange.AccountID(fmt.Sprint(n % 1000)), Ref: exchange.Ref(fmt.Sprint("order-", n))}
	}
	f := newRefFilter()
	const many = 300_000 // enough for three layers
	added := make([]exchange.RefKey, many)
	for n := range added {
		added[n] = key(n)
	}
	var readers sync.WaitGroup
	for range 2 { // concurrent readers, for the race detector
		readers.Go(func() {
			for n := range 1000 {
				f.mayHave(key(n))
			}
		})
	}
	for rest := added; len(rest) > 0; {
		n := 1 + r.IntN(min(len(rest), 5000))
		f.add(slices.Values(rest[:n]))
		rest = rest[n:]
	}
	readers.Wait()
	require.Len(t, f.layers, 3)
	require.Equal(t, 7*256<<10, f.bytes())
	for _, k := range added {
		if !f.mayHave(k) {
			t.Fatalf("%v was added", k)
		}
	}
	passed := 0
	for n := range many {
		if f.mayHave(key(many + n)) {
			passed++
		}
	}
	assert.Less(t, passed, 3*many/2000, "at most 0.15 %")
	require.False(t, f.mayHave(exchange.RefKey{Account: "1", Ref: "2"}) && f.mayHave(exchange.RefKey{Account: "12"}))
}
