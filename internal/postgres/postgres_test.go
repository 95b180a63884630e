package postgres

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/pgtest"
)

var background = context.Background()

func TestMain(m *testing.M) {
	// Tests that run in parallel mostly wait, for Postgres and for time limits.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(pgtest.Main(m))
}

// newTables returns the URL of a database with the tables of an exchange without records, for this test alone.
func newTables(t testing.TB) string {
	t.Helper()
	return pgtest.NewCopy(t, "tables", func(url string) error {
		s, err := Open(background, url, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.conn.Exec(background, `UPDATE people.exchange_state SET epoch = 0`) // the test's server has epoch 1
		return err
	})
}

func mustOpen(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(background, url, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// history makes random events by trading on a state: symbols A to C, ten accounts, orders, cancels, halts.
type history struct {
	r     *rand.Rand
	state *exchange.State
	seq   uint64
	old   bool // make only events that programs of schema 1 wrote
	plain bool // make orders without instructions
}

// newState returns an empty exchange whose orders execute in parts of two fills.
func newState() *exchange.State {
	s := exchange.NewState()
	s.Index.FillsMax = 2
	return s
}

func newHistory(seed uint64) *history {
	return &history{r: rand.New(rand.NewPCG(seed, 1)), state: newState()}
}

// next applies the next event to the state and returns it.
func (h *history) next() exchange.Event {
	h.seq++
	e := exchange.Event{Time: h.time(), Symbol: exchange.Symbol("ABC"[h.seq%3 : h.seq%3+1]),
		Account: exchange.AccountID(fmt.Sprint(h.r.IntN(10)))}
	if !h.old && !h.plain && h.r.IntN(2) == 0 {
		e.Account = "3" // this account meets its own orders
	}
	if book := h.state.Books[e.Symbol]; book != nil && book.Unfinished() != 0 {
		return h.continueOrder(e, book)
	}
	switch {
	case h.seq <= 3:
		e.Kind, e.Account = exchange.SymbolMade, ""
	case h.seq <= 13:
		e.Kind, e.Symbol, e.Account = exchange.AccountOpened, "", exchange.AccountID(fmt.Sprint(h.seq-4))
		e.Balance = exchange.Notional(1e9, 123_456_789)
	case h.seq <= 43 || h.r.IntN(50) == 0:
		e.Kind, e.Deposited = exchange.SharesDeposited, exchange.Shares(1+h.r.IntN(1000)).Position()
	case h.r.IntN(4) == 0 && h.cancel(&e):
	case !h.old && h.r.IntN(30) == 0 && h.cancelAll(&e):
	case !h.old && !h.plain && h.r.IntN(6) == 0 && h.amend(&e):
		return e
	case !h.old && !h.plain && h.r.IntN(20) == 0 && h.rule(&e):
	case !h.old && h.r.IntN(30) == 0 && h.halt(&e, h.state.Books[e.Symbol].Halted() != nil):
	case h.state.Books[e.Symbol].Halted() != nil:
		h.halt(&e, true)
	default:
		return h.order(e)
	}
	h.name(&e)
	if err := h.state.Apply(&e); err != nil {
		panic(err)
	}
	return e
}

// time returns the next event's time. Programs of older schemas kept whole seconds.
func (h *history) time() int64 {
	at := int64(h.seq) * exchange.Second
	if !h.old && !h.plain {
		at += h.r.Int64N(exchange.Second)
	}
	return at
}

// name gives a new ref to every other event that may have one.
func (h *history) name(e *exchange.Event) {
	made := e.Kind == exchange.AccountOpened || e.Kind == exchange.SharesDeposited || e.Kind == exchange.OrderAccepted ||
		e.Kind == exchange.OrderReplaced || e.Kind == exchange.OrderReduced
	if made && (h.r.IntN(2) == 0 || e.Kind == exchange.OrderReduced && e.Shares == 0) {
		e.Ref = exchange.Ref(fmt.Sprintf("ref-%d", h.seq))
	}
}

// cancel makes e the cancel of an open order of its symbol. It returns false if the symbol has no open order.
func (h *history) cancel(e *exchange.Event) bool {
	var open []exchange.Order
	for o := range h.state.Books[e.Symbol].Orders() {
		if o.Open > 0 {
			open = append(open, o)
		}
	}
	if len(open) == 0 {
		return false
	}
	slices.SortFunc(open, func(a, b exchange.Order) int { return int(a.ID) - int(b.ID) })
	o := open[h.r.IntN(len(open))]
	e.Kind, e.Order, e.Account, e.Terms, e.Shares = exchange.OrderCanceled, o.ID, o.Account.ID, o.Terms, o.Open
	return true
}

// cancelAll makes e the cancel of all open orders of its account. It returns false if the account has no open
// order or if an order is unfinished.
func (h *history) cancelAll(e *exchange.Event) bool {
	var cancels []exchange.Cancel
	for sym, book := range h.state.Books {
		if book.Unfinished() != 0 {
			return false
		}
		for o := range book.OpenOf(h.state.Ledger.Account(e.Account)) {
			cancels = append(cancels, exchange.Cancel{Order: o.ID, Symbol: sym, Terms: o.Terms, Shares: o.Open})
		}
	}
	if len(cancels) == 0 {
		return false
	}
	slices.SortFunc(cancels, func(a, b exchange.Cancel) int { return a.Compare(&b) })
	e.Kind, e.Symbol, e.Cancels = exchange.OrdersCanceled, "", cancels
	if !h.plain {
		e.Cause = exchange.CancelCause(h.r.IntN(int(exchange.ByBlock) + 1))
	}
	return true
}

// halt makes e the halt of its symbol, or the end of a halt.
func (h *history) halt(e *exchange.Event, halted bool) bool {
	e.Kind, e.Account, e.Reason = exchange.SymbolHalted, "", fmt.Sprint("reason ", h.seq)
	if halted {
		e.Kind, e.Reason = exchange.SymbolResumed, ""
	}
	return true
}

// order makes e an order. If the account cannot pay for it, it makes another event instead.
func (h *history) order(e exchange.Event) exchange.Event {
	li := h.state.Ledger.Instrument(e.Symbol)
	o := exchange.NewOrder(h.state.OrderID+1, h.state.Ledger.Account(e.Account), exchange.Side(1+h.r.IntN(2)),
		exchange.Shares(1+h.r.IntN(240)>>h.r.IntN(5)), exchange.Price(90+h.r.IntN(20)))
	if h.instruct(&e, o); !h.reserve(e.Symbol, o) {
		h.seq--
		return h.next()
	}
	fills := h.state.Books[e.Symbol].Submit(o, e.Time, nil)
	h.state.Ledger.Settle(li, o, fills)
	return h.accepted(e, exchange.OrderAccepted, o, fills)
}

// accepted makes e the record of an order after its execution.
func (h *history) accepted(e exchange.Event, kind exchange.EventKind, o *exchange.Order, fills []exchange.Fill,
) exchange.Event {
	li, book := h.state.Ledger.Instrument(e.Symbol), h.state.Books[e.Symbol]
	h.state.Ledger.ReleaseOwn(li, o.Account, book.Own())
	h.state.OrderID = o.ID
	at, amend, unsent := e.Time, e.Amend, e.Unsent
	e.Note(kind, o, e.Symbol, o.Shares, at)
	e.NoteMore(o, book.Own())
	e.Amend, e.Unsent, e.Fills, e.Hold = amend, unsent, fills, book.HoldOf(o)
	h.name(&e)
	return plain(e)
}

// continueOrder makes e the next part of an unfinished order.
func (h *history) continueOrder(e exchange.Event, book *exchange.Book) exchange.Event {
	o, _ := book.Find(book.Unfinished())
	open, before := o.Open, len(o.Executions)
	fills := book.Continue(&o, e.Time, nil)
	li := h.state.Ledger.Instrument(e.Symbol)
	h.state.Ledger.SettleMore(li, &o, fills)
	h.state.Ledger.ReleaseOwn(li, o.Account, book.Own())
	e.Note(exchange.OrderContinued, &o, e.Symbol, open, e.Time)
	e.NoteMore(&o, book.Own())
	e.Before, e.Fills = before, fills
	return plain(e)
}

// plain returns e without the fields that only the book knows.
func plain(e exchange.Event) exchange.Event {
	var plain exchange.Event
	if err := exchange.DecodeEvent(exchange.AppendEvent(nil, &e), &plain); err != nil {
		panic(err)
	}
	return plain
}

// TestTablesFollowTheState writes a random history in batches of random size. After each batch, the state
// loaded from the tables must be the core's.
func TestTablesFollowTheState(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := mustOpen(t, newTables(t))
	h, b := newHistory(seed), newBatch()
	b.reset(0)
	for range 40 {
		for range 1 + h.r.IntN(120) {
			e := h.next()
			require.NoError(t, addKept(b, h.seq, &e))
		}
		_, err := s.write(background, b)
		require.NoError(t, err, "seed %d", seed)
		snap, err := s.Load(background)
		require.NoError(t, err)
		require.Equal(t, h.seq, snap.Seq)
		require.Equal(t, h.state.OrderID, snap.OrderID)
		restored, err := snap.Restore()
		require.NoError(t, err, "seed %d", seed)
		compareStates(t, h.state, restored)
		b.reset(h.seq)
	}
}

func compareStates(t *testing.T, want, got *exchange.State) {
	t.Helper()
	for sym, book := range want.Books {
		for o := range book.Orders() {
			r, found := got.Books[sym].Find(o.ID)
			if o.Open == 0 {
				require.False(t, found, "closed orders are not loaded")
				continue
			}
			require.True(t, found, "order %d", o.ID)
			require.Equal(t, o.Status(), r.Status(), "order %d", o.ID)
			o.Account, r.Account = nil, nil
			require.Equal(t, o, r, "order %d", o.ID)
		}
		require.Equal(t, book.Resting(), got.Books[sym].Resting())
		require.Equal(t, book.Rules(), got.Books[sym].Rules())
		require.Equal(t, book.Last(), got.Books[sym].Last())
		for id := range 10 {
			account := exchange.AccountID(fmt.Sprint(id))
			a, b := want.Ledger.Account(account), got.Ledger.Account(account)
			if a == nil {
				require.Nil(t, b)
				continue
			}
			free, held := a.Balance()
			free2, held2 := b.Balance()
			require.Equal(t, []any{free, held}, []any{free2, held2}, "account %d", id)
			shares, heldShares := want.Ledger.Instrument(sym).Position(a)
			shares2, heldShares2 := got.Ledger.Instrument(sym).Position(b)
			require.Equal(t, []any{shares, heldShares}, []any{shares2, heldShares2}, "account %d %s", id, sym)
			require.Equal(t, []any{a.Rules(), a.Due()}, []any{b.Rules(), b.Due()}, "account %d", id)
		}
	}
	require.Equal(t, want.Digest(), got.Digest())
}

func TestWritingABatchTwiceChangesNothing(t *testing.T) {
	s := mustOpen(t, newTables(t))
	h, b := newHistory(1), newBatch()
	b.reset(0)
	for range 100 {
		e := h.next()
		require.NoError(t, addKept(b, h.seq, &e))
	}
	_, err := s.write(background, b)
	require.NoError(t, err)
	_, err = s.write(background, b)
	require.ErrorIs(t, err, ErrTaken, "the tables are not where the batch begins")
	snap, err := s.Load(background)
	require.NoError(t, err)
	restored, err := snap.Restore()
	require.NoError(t, err)
	compareStates(t, h.state, restored)
	require.ErrorContains(t, addKept(b, h.seq+2, &exchange.Event{}), "follows")
}

func TestAnOldServerCanWriteNoMore(t *testing.T) {
	t.Parallel() // the test waits for the lock
	url := newTables(t)
	old := mustOpen(t, url)
	_, err := Open(background, url, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, ErrTaken)
	require.True(t, Unusable(err))

	// The old server's lock is lost with its session, as when a network breaks.
	b := newBatch()
	b.reset(0)
	require.NoError(t, addKept(b, 1, &exchange.Event{Kind: exchange.SymbolMade, Symbol: "A"}))
	_, err = old.conn.Exec(background, `SELECT pg_advisory_unlock($1)`, int64(lockKey))
	require.NoError(t, err)
	young := mustOpen(t, url)
	_, err = old.write(background, b)
	require.ErrorIs(t, err, ErrTaken)
	require.ErrorIs(t, old.SetJournal(background, [16]byte{1}, "journal"), ErrTaken)
	_, err = young.write(background, b)
	require.NoError(t, err)
	young.Close()
	_, err = old.reconnect(background)
	require.ErrorIs(t, err, ErrTaken, "the epoch has moved on")
}

// TestAStartReadsNoHistory checks that after tens of thousands of closed orders, a load reads the logs only by
// their indexes.
func TestAStartReadsNoHistory(t *testing.T) {
	s := mustOpen(t, newTables(t))
	h, b := newHistory(2), newBatch()
	b.reset(0)
	for range 20_000 {
		e := h.next()
		require.NoError(t, addKept(b, h.seq, &e))
	}
	_, err := s.write(background, b)
	require.NoError(t, err)
	scans := func() (n int64) {
		_, err := s.conn.Exec(background, `SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()`)
		require.NoError(t, err)
		require.NoError(t, s.conn.QueryRow(background,
			`SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname LIKE '%\_log'`).Scan(&n))
		return n
	}
	_, err = s.conn.Exec(background, `ANALYZE`)
	require.NoError(t, err)
	before := scans()
	snap, err := s.Load(background)
	require.NoError(t, err)
	require.NotEmpty(t, snap.Orders)
	require.Less(t, len(snap.Orders), 5000)
	require.Equal(t, before, scans())
}

func TestHistoryAnswersRightAfterItsConnectionsWereEnded(t *testing.T) {
	s := mustOpen(t, newTables(t))
	past, err := OpenHistory(background, s.conn.Config().ConnString(), "")
	require.NoError(t, err)
	defer past.Close()
	var held []*pgxpool.Conn
	for range historyConnectionsMax {
		c, err := past.pool.Acquire(background)
		require.NoError(t, err)
		held = append(held, c)
	}
	for _, c := range held {
		c.Release()
	}
	_, err = s.conn.Exec(background,
		`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
			WHERE application_name = 'outcryd history' AND datname = current_database()`)
	require.NoError(t, err)
	_, found, err := past.Order(background, 1, 0, 1000)
	require.NoError(t, err)
	require.False(t, found)
}

func TestHistoryAnswersLikeMemory(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	url := newTables(t)
	s := mustOpen(t, url)
	h, b := newHistory(3), newBatch()
	b.reset(0)
	var events []exchange.Event
	for range budget.Of(3000) {
		e := h.next()
		events = append(events, e)
		require.NoError(t, addKept(b, h.seq, &e))
		if b.records() == 97 {
			_, err := s.write(background, b)
			require.NoError(t, err)
			b.reset(h.seq)
		}
	}
	_, err := s.write(background, b)
	require.NoError(t, err)
	past, err := OpenHistory(background, url, "")
	require.NoError(t, err)
	defer past.Close()
	for sym, book := range h.state.Books {
		for o := range book.Orders() {
			got, found, err := past.Order(background, o.ID, 0, 1000)
			require.NoError(t, err)
			require.True(t, found)
			require.NotZero(t, got.Seq)
			want := exchange.ClosedOrder{Account: o.Account.ID, Seq: got.Seq, PublicOrder: o.Public(sym)}
			require.Equal(t, want, got, "order %d", o.ID)
			all := want.Status.Executions
			got, _, err = past.Order(background, o.ID, 1, 2)
			require.NoError(t, err)
			from := min(1, len(all))
			require.Equal(t, append([]exchange.Execution(nil), all[from:min(from+2, len(all))]...), got.Status.Executions,
				"a page of order %d", o.ID)
			requireAtFirst(t, past, &o, got)
			newest, err := past.Newest(background, o.First())
			require.NoError(t, err)
			require.Equal(t, book.Newest(o.First()), newest)
		}
	}
	requireFills(t, past, events)
	_, found, err := past.Order(background, h.state.OrderID+1, 0, 1000)
	require.NoError(t, err)
	require.False(t, found)
}

// TestDecimalsGoToPostgresAndBack writes random numbers, which Postgres must show in their shortest form, and
// reads them back.
func TestDecimalsGoToPostgresAndBack(t *testing.T) {
	s := mustOpen(t, newTables(t))
	rapid.Check(t, func(rt *rapid.T) {
		v := exchange.Int128{Hi: rapid.Int64Range(-1<<60, 1<<60).Draw(rt, "hi"), Lo: rapid.Uint64().Draw(rt, "lo")}
		if rapid.Bool().Draw(rt, "round") {
			v = exchange.Int128(exchange.Notional(exchange.Shares(rapid.Int64Range(0, 9e18).Draw(rt, "factor")),
				exchange.Price(math.Pow10(rapid.IntRange(0, 18).Draw(rt, "zeros")))))
		}
		cash, shares := newArray(numerics), newArray(numerics)
		cash.cash(exchange.Cash(v))
		shares.position(exchange.Position(v))
		var texts [2]string
		var back [2]pgtype.Numeric
		row := s.conn.PgConn().ExecParams(background,
			`SELECT a[1]::text, b[1]::text, a[1], b[1] FROM (SELECT $1::numeric[], $2::numeric[]) AS v (a, b)`,
			[][]byte{cash.bytes(), shares.bytes()}, nil, []int16{pgx.BinaryFormatCode}, []int16{pgx.BinaryFormatCode}).Read()
		require.NoError(rt, row.Err)
		for i := range 2 {
			texts[i] = string(row.Rows[0][i])
			require.NoError(rt, s.conn.TypeMap().Scan(pgtype.NumericOID, pgx.BinaryFormatCode, row.Rows[0][2+i], &back[i]))
		}
		require.Equal(rt, [2]string{exchange.Cash(v).String(), exchange.Position(v).String()}, texts)
		for i, scale := range []int32{scaleCash, scaleShares} {
			got, err := int128(back[i], scale)
			require.NoError(rt, err)
			require.Equal(rt, v, got)
		}
	})
	for _, n := range []pgtype.Numeric{{}, {NaN: true, Valid: true}, {Int: big.NewInt(1), Exp: -17, Valid: true},
		{Int: big.NewInt(1), Exp: 40, Valid: true}, {InfinityModifier: pgtype.Infinity, Valid: true}} {
		_, err := int128(n, scaleCash)
		require.Error(t, err)
	}
}

func TestABadAddressIsUnusable(t *testing.T) {
	_, err := Open(background, "postgres://%zz", slog.New(slog.DiscardHandler))
	require.True(t, Unusable(err))
	_, err = OpenHistory(background, "postgres://%zz", "")
	require.True(t, Unusable(err))
	_, err = Open(background, "postgres:///x?host=/nowhere", slog.New(slog.DiscardHandler))
	require.Error(t, err)
	require.False(t, Unusable(err), "it may come")
}

func mustReopen(t *testing.T, s *Store, url string) *Store {
	s.Close()
	return mustOpen(t, url)
}
