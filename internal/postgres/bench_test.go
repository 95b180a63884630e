package postgres

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/postgres/local"
	"outcry/internal/testing/budget"
)

// market makes journal records like those of a busy exchange: three orders per cancel, prices near a moving
// middle, and accounts that can always pay.
type market struct {
	r       *rand.Rand
	seq     uint64
	id      exchange.OrderID
	symbols []marketSymbol
	account []*exchange.Account
	event   exchange.Event
	few     int // if not 0, only this many accounts trade, and symbols have Zipf weights
	bounds  []float64
}

// draw picks a random symbol.
func (m *market) draw() *marketSymbol {
	if m.few == 0 {
		return &m.symbols[m.r.IntN(marketSymbols)]
	}
	if m.bounds == nil {
		sum := 0.0
		for i := range m.symbols {
			sum += 1 / float64(i+1)
			m.bounds = append(m.bounds, sum)
		}
	}
	at, _ := slices.BinarySearch(m.bounds, m.r.Float64()*m.bounds[len(m.bounds)-1])
	return &m.symbols[min(at, len(m.symbols)-1)]
}

// trader picks a random account.
func (m *market) trader() *exchange.Account {
	if m.few == 0 {
		return m.account[m.r.IntN(marketAccounts)]
	}
	return m.account[m.r.IntN(m.few)]
}

type marketSymbol struct {
	name   exchange.Symbol
	book   *exchange.Book
	middle exchange.Price
	sent   []exchange.OrderID // newest last; some are closed
}

const (
	marketAccounts = 200
	marketSymbols  = 100
)

func newMarket() *market {
	m := &market{r: rand.New(rand.NewPCG(5, 6))}
	for i := range marketSymbols {
		m.symbols = append(m.symbols, marketSymbol{exchange.Symbol(fmt.Sprintf("S%d", i)), exchange.NewBook(), 100e8, nil})
	}
	return m
}

// records makes the next n records.
func (m *market) records(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = m.next(nil)
	}
	return all
}

// next appends the next record to dst. The first records open accounts, make symbols and deposit shares.
func (m *market) next(dst []byte) []byte {
	n := int(m.seq)
	m.seq++
	e := &m.event
	*e = exchange.Event{Time: 1_800_000_000*exchange.Second + int64(m.seq)*20_000, Fills: e.Fills[:0]}
	switch {
	case n < marketAccounts:
		e.Kind, e.Account = exchange.AccountOpened, exchange.AccountID(strconv.Itoa(100_000+n))
		e.Balance = exchange.Notional(9e9*1e8, 1e8*1e8)
		m.account = append(m.account, &exchange.Account{ID: e.Account})
	case n < marketAccounts+marketSymbols:
		e.Kind, e.Symbol = exchange.SymbolMade, m.symbols[n-marketAccounts].name
	case n < marketAccounts+marketSymbols+marketAccounts*marketSymbols:
		n -= marketAccounts + marketSymbols
		e.Kind = exchange.SharesDeposited
		e.Symbol, e.Account = m.symbols[n/marketAccounts].name, m.account[n%marketAccounts].ID
		e.Deposited = exchange.Shares(5e10 * 1e8).Position()
	default:
		s := m.draw()
		if m.r.IntN(4) > 0 || !m.cancel(s) {
			m.order(s)
		}
	}
	return exchange.AppendEvent(dst, e)
}

// cancel sets the event to the cancel of one of the symbol's newer orders. It returns false if none of a few
// candidates is open.
func (m *market) cancel(s *marketSymbol) bool {
	for range 10 {
		if len(s.sent) == 0 {
			return false
		}
		i := len(s.sent) - 1 - m.r.IntN(min(len(s.sent), 200))
		o, found := s.book.Find(s.sent[i])
		if !found || o.Open == 0 {
			continue
		}
		o, _ = s.book.Cancel(o.ID, o.Account.ID, m.event.Time)
		e := &m.event
		e.Kind, e.Order, e.Account, e.Symbol, e.Side, e.Shares, e.Limit = exchange.OrderCanceled, o.ID, o.Account.ID, s.name,
			o.Side, o.Canceled, o.Limit
		return true
	}
	return false
}

// order sets the event to an order. One in three crosses the spread.
func (m *market) order(s *marketSymbol) {
	m.id++
	side, away := exchange.Side(1+m.r.IntN(2)), exchange.Price(m.r.IntN(20)-6)*1e6
	if side == exchange.Buy {
		away = -away
	}
	s.middle = max(50e8, s.middle+exchange.Price(m.r.IntN(3)-1)*1e6)
	o := exchange.NewOrder(m.id, m.trader(), side, exchange.Shares(1+m.r.IntN(100))*1e8,
		s.middle+away)
	e := &m.event
	e.Fills = s.book.Submit(o, e.Time, e.Fills)
	s.sent = append(s.sent, o.ID)
	e.Kind, e.Order, e.Account, e.Symbol, e.Side, e.Shares, e.Limit = exchange.OrderAccepted, o.ID, o.Account.ID, s.name,
		side, o.Shares, o.Limit
}

// durableDatabase starts a cluster with the settings of outcryd's own cluster, and returns its URL.
func durableDatabase(b *testing.B) string {
	c, err := local.Start(background, local.Options{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Stop(background)) })
	return c.URL()
}

// cpu returns the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// stat returns the fields of /proc/pid/stat after the name of the program.
func stat(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // the process has ended
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// postgresCPU returns the processor time of all processes of the backend's postmaster, in ticks of 10 ms.
func postgresCPU(b *testing.B, backend uint32) (sum time.Duration) {
	const parent, userTime, systemTime, childUser, childSystem = 1, 11, 12, 13, 14
	postmaster := stat(fmt.Sprintf("/proc/%d/stat", backend))[parent]
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(b, err)
	for _, path := range all {
		fields := stat(path)
		if fields == nil || fields[parent] != postmaster && path != "/proc/"+postmaster+"/stat" {
			continue
		}
		use := []int{userTime, systemTime}
		if fields[parent] != postmaster { // this is the postmaster: add its child processes that have ended
			use = append(use, childUser, childSystem)
		}
		for _, i := range use {
			ticks, err := strconv.Atoi(fields[i])
			require.NoError(b, err)
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}

// projectRecords applies records as one batch and returns how long that took. first is the first record's seq.
func projectRecords(b *testing.B, p *Projector, first uint64, records [][]byte) time.Duration {
	start := time.Now()
	p.batch.reset(first - 1)
	var decoder exchange.Decoder
	var kept exchange.KeptEvent
	for i, record := range records {
		require.NoError(b, decoder.DecodeKept(record, &kept))
		require.NoError(b, p.batch.add(first+uint64(i), &kept))
		kept.Recycle()
	}
	_, err := p.options.Store.write(background, p.batch)
	require.NoError(b, err)
	return time.Since(start)
}

// BenchmarkProjection applies records to a durable database in batches of equal size. It reports records per
// second, and the processor time per record here and in Postgres.
func BenchmarkProjection(b *testing.B) {
	for _, size := range []int{100, 1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkProjection(b, size) })
	}
}

func benchmarkProjection(b *testing.B, size int) {
	if size > 100 {
		budget.SkipShort(b, "more records of the same kinds")
	}
	s, m := mustOpen(b, durableDatabase(b)), newMarket()
	p := &Projector{options: ProjectorOptions{Store: s}, batch: newBatch()}
	var here, there, took time.Duration
	project := func(size int) {
		first := m.seq + 1
		records := m.records(size)
		here -= cpu(b)
		took += projectRecords(b, p, first, records)
		here += cpu(b)
	}
	project(50_000)
	project(50_000)
	project(50_000)
	b.ResetTimer()
	here, there, took = 0, -postgresCPU(b, s.conn.PgConn().PID()), 0
	for b.Loop() {
		project(size)
	}
	there += postgresCPU(b, s.conn.PgConn().PID())
	n := float64(b.N * size)
	b.ReportMetric(n/took.Seconds(), "records/s")
	b.ReportMetric(float64(here.Nanoseconds())/n, "ns-here/record")
	b.ReportMetric(float64(there.Nanoseconds())/n, "ns-postgres/record")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBatch adds records to a batch that is not written.
func BenchmarkBatch(b *testing.B) {
	m, kept, batch := newMarket(), make([]exchange.KeptEvent, 20_000), newBatch()
	m.records(marketAccounts + marketSymbols + marketAccounts*marketSymbols)
	decode := exchange.KeptDecoder()
	for i, record := range m.records(len(kept)) {
		require.NoError(b, decode(record, &kept[i]))
	}
	b.ReportAllocs()
	for b.Loop() {
		batch.reset(0)
		for i := range kept {
			if err := batch.add(uint64(i+1), &kept[i]); err != nil {
				b.Fatal(err)
			}
		}
		batch.executed()
		batch.placedBy()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(kept)), "ns/record")
}

// BenchmarkLoad reads a million resting orders, half of them buys and one in a hundred partly executed, and
// builds the audited state.
func BenchmarkLoad(b *testing.B) {
	s := mustOpen(b, durableDatabase(b))
	_, err := s.conn.Exec(background, `
		INSERT INTO outcry.order_log (id, account, sym, amount, limit_price, time, seq)
		SELECT n, (n * 7 % 1000 + 1)::text, 'S' || n % 100, CASE WHEN n % 2 = 0 THEN 200000000 ELSE -200000000 END,
		       CASE WHEN n % 2 = 0 THEN 100 ELSE 200 END * 100000000::bigint + n / 100 % 5000 * 1000000::bigint, 1800000000, n
		  FROM generate_series(1, 1000000) AS n;
		INSERT INTO outcry.resting_orders (id, account, sym, amount, limit_price, open)
		SELECT id, account, sym, amount, limit_price,
			CASE WHEN id % 100 = 50 THEN 100000000 ELSE 200000000 END FROM outcry.order_log;
		INSERT INTO outcry.execution_log (order_id, n, resting_id, sym, buys, shares, price, time)
		SELECT id + 1000000, 1, id, sym, false, 100000000, limit_price, time FROM outcry.order_log WHERE id % 100 = 50;
		INSERT INTO people.accounts (id, opened, balance, held, seq)
		SELECT account, sum(open::numeric * limit_price) / 1e16, 0, sum(open::numeric * limit_price) / 1e16, 1 FROM
		  (SELECT account, CASE WHEN amount > 0 THEN open ELSE 0 END AS open, limit_price
			  FROM outcry.resting_orders) o GROUP BY account;
		INSERT INTO people.positions (sym, account, shares, held)
		SELECT sym, account, 0, sum(open) / 1e8 FROM outcry.resting_orders WHERE amount < 0 GROUP BY sym, account;
		INSERT INTO people.symbols (sym, placed, seq)
			SELECT 'S' || n, coalesce((SELECT sum(held) FROM people.positions WHERE sym = 'S' || n), 0), 1
			  FROM generate_series(0, 99) AS n;
		ANALYZE`)
	require.NoError(b, err)
	var load, restore time.Duration
	for b.Loop() {
		start := time.Now()
		snap, err := s.Load(background)
		require.NoError(b, err)
		require.Len(b, snap.Orders, 1_000_000)
		load += time.Since(start)
		_, err = snap.Restore()
		require.NoError(b, err)
		restore += time.Since(start)
	}
	b.ReportMetric(load.Seconds()/float64(b.N), "s-load")
	b.ReportMetric((restore-load).Seconds()/float64(b.N), "s-restore")
}
