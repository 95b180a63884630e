package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/model"
)

// TestARandomSessionAgreesWithTheModel compares 10,000 commands (100,000 with -tags slow) with the model, reply by
// reply. After every frame it requires that cash and shares are conserved, and at the end it compares every table with
// the model. Closed orders leave memory at once, so many queries are answered from Postgres.
func TestARandomSessionAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, database := dataFlags(t)
	s, addr := inProcess(t, append(flags, "--closed-orders=100", "--refs=40")...)
	c := dial(t, addr)
	x, g := model.New(), model.NewGenerator(seed, 8, 100)
	for n := 0; g.Commands() < 100_000/raceFactor/shortFactor; n++ {
		frame := g.Frame()
		want := x.Do(frame, 1)
		got := c.must(t, string(frame))
		require.Equal(t, model.Normalize(want), model.Normalize([]byte(got)), "seed %d, after %d commands: %s", seed,
			g.Commands(), frame)
		g.Observe([]byte(got))
		require.NoError(t, s.engine.CheckLedger())
		if n%500 == 0 {
			require.NoError(t, x.Check())
		}
	}
	require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	require.Less(t, s.engine.Stats().ClosedOrders, int64(2000), "closed orders leave memory")
	compareTables(t, database, x)
}

// compareTables requires that the tables in Postgres equal the model, row by row.
func compareTables(t *testing.T, database string, x *model.Exchange) {
	t.Helper()
	database = text(t, database)
	cash := map[string]model.Holding{}
	for _, row := range query(t, database, `SELECT id, balance, held FROM accounts`) {
		cash[row[0]] = model.Holding{Free: row[1], Held: row[2]}
	}
	require.Equal(t, x.Cash(), cash)

	shares := map[[2]string]model.Holding{}
	for _, row := range query(t, database, `SELECT sym, account, shares, held FROM positions`) {
		shares[[2]string{row[0], row[1]}] = model.Holding{Free: row[2], Held: row[3]}
	}
	require.Equal(t, x.Shares(), shares)

	var orders, want []string
	for _, row := range query(t, database,
		`SELECT id, account, sym, amount, limit_price, open, executed, canceled, reduced, type, tif, coalesce(stp, ''), post,
			cod, coalesce(replaces, 0) FROM orders ORDER BY id`) {
		orders = append(orders, strings.Join(row, " "))
	}
	for _, o := range x.Orders() {
		want = append(want, fmt.Sprint(o.ID, " ", o.Account, " ", o.Sym, " ", o.Amount, " ", o.Limit, " ", o.Open, " ",
			o.Executed, " ", o.Canceled, " ", o.Reduced, " ", o.Type, " ", o.TIF, " ", o.STP, " ", sql(o.Post), " ", sql(o.COD),
			" ", o.Replaces))
	}
	require.Equal(t, want, orders)
	fills := map[string]int{}
	for _, row := range query(t, database, `SELECT id, fills FROM accounts WHERE fills > 0`) {
		n, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		fills[row[0]] = n
	}
	require.Equal(t, x.Fills(), fills)
	events := map[string]int{}
	for _, row := range query(t, database, `SELECT id, n FROM accounts`) {
		n, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		events[row[0]] = n
	}
	require.Equal(t, x.Events(), events)
	conserved(t, database)
}

// sql returns a boolean as query returns it.
func sql(yes bool) string { return map[bool]string{true: "t", false: "f"}[yes] }

// conserved requires that cash and shares in the tables add up, and that the executions of each order agree with the
// order.
func conserved(t testing.TB, database string) {
	t.Helper()
	query(t, database, `ANALYZE`) // the planner has no statistics of the new tables yet
	for what, sql := range map[string]string{
		"cash": `SELECT sum(opened), sum(balance + held) FROM accounts HAVING sum(opened) <> sum(balance + held)`,
		"shares": `SELECT s.sym FROM symbols s LEFT JOIN positions p USING (sym) GROUP BY s.sym, s.placed ` +
			`HAVING s.placed <> coalesce(sum(p.shares + p.held), 0)`,
		"executions": `SELECT o.id FROM orders o LEFT JOIN (
				SELECT buy_order AS id, shares FROM executions UNION ALL SELECT sell_order, shares FROM executions) e USING (id)
			GROUP BY o.id, o.executed HAVING o.executed <> coalesce(sum(e.shares), 0)`,
		"cash held": `SELECT a.id FROM accounts a LEFT JOIN orders o ON o.account = a.id AND o.amount > 0
			GROUP BY a.id, a.held HAVING a.held <> coalesce(sum(o.open * o.limit_price), 0)`,
		"shares held": `SELECT p.sym, p.account FROM positions p
			LEFT JOIN orders o ON o.account = p.account AND o.sym = p.sym AND o.amount < 0
			GROUP BY p.sym, p.account, p.held HAVING p.held <> coalesce(sum(o.open), 0)`,
		"limits": `SELECT e.* FROM executions e JOIN orders b ON b.id = e.buy_order JOIN orders s ON s.id = e.sell_order
			WHERE e.price > b.limit_price OR e.price < s.limit_price OR b.sym <> s.sym OR b.amount < 0 OR s.amount > 0`,
	} {
		require.Empty(t, query(t, database, sql), what)
	}
}

// TestSixteenConnectionsAddUp trades from 16 connections at once. The order of commands is arbitrary, but cash and
// shares must be conserved and every answer about an order must hold.
func TestSixteenConnectionsAddUp(t *testing.T) {
	raced(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, database := dataFlags(t)
	s, addr := inProcess(t, append(flags, "--closed-orders=1000")...)
	setup := dial(t, addr)
	const accounts, symbols = 40, 8
	for id := 1; id <= accounts; id++ {
		create := new(wire.Create).Account(wire.Account{ID: fmt.Sprint(id), Balance: "100000"})
		for sym := range symbols {
			create.Symbol(fmt.Sprintf("SYM%d", sym), wire.Placement{Account: fmt.Sprint(id), Shares: "1000"})
		}
		require.NotContains(t, setup.must(t, string(create.Append(nil))), "error")
	}
	var mu sync.Mutex
	opened := map[string]int{}
	var clients sync.WaitGroup
	for n := range 16 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			c := dial(t, addr)
			var mine []string
			for range 1500 / raceFactor / shortFactor {
				frame := randomTrades(r, fmt.Sprint(1+r.IntN(accounts)), symbols, mine)
				reply, err := c.ask(frame)
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				answers, err := wire.ParseReply([]byte(reply))
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				mu.Lock()
				for _, a := range answers {
					if a.Kind == "opened" {
						opened[a.ID]++
						mine = append(mine, a.ID)
					}
				}
				mu.Unlock()
			}
		})
	}
	audits := make(chan struct{})
	go func() {
		defer close(audits)
		for range 200 / shortFactor {
			if err := s.engine.CheckLedger(); err != nil {
				t.Error(err)
			}
		}
	}()
	clients.Wait()
	<-audits
	require.NoError(t, s.engine.CheckLedger())
	require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	conserved(t, database)
	ids := query(t, text(t, database), `SELECT id FROM orders ORDER BY id`)
	require.Len(t, ids, len(opened), "every answered order is there once, and no other")
	for i, row := range ids {
		if id := fmt.Sprint(i + 1); row[0] != id || opened[id] != 1 {
			t.Fatalf("order %s stands in place %s and was answered %d times", row[0], id, opened[row[0]])
		}
	}
}

// randomTrades returns a frame of a few orders, queries and cancels.
func randomTrades(r *rand.Rand, account string, symbols int, mine []string) string {
	tx := wire.NewTransactions(account)
	for range 1 + r.IntN(8) {
		switch n := r.IntN(10); {
		case n < 7 || len(mine) == 0:
			sign := []string{"", "-"}[r.IntN(2)]
			tx.Order(fmt.Sprintf("SYM%d", r.IntN(symbols)), fmt.Sprintf("%s%d.%d", sign, 1+r.IntN(20), r.IntN(1000)),
				fmt.Sprintf("%d.%02d", 95+r.IntN(10), r.IntN(100)))
		case n < 8:
			tx.Query(mine[r.IntN(len(mine))])
		default:
			tx.Cancel(mine[len(mine)-1-r.IntN(min(20, len(mine)))])
		}
	}
	return string(tx.Append(nil))
}
