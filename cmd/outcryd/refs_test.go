package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/pgtest"
)

// TestARequestThatIsSentAgainIsAnsweredWithTheSameBytes repeats the same frames: immediately, after a kill with
// Postgres away, after a kill with all refs in Postgres and none in memory, and after Postgres was away again.
func TestARequestThatIsSentAgainIsAnsweredWithTheSameBytes(t *testing.T) {
	t.Parallel()
	pg, dir := pgtest.NewCluster(t)
	flags := []string{"--data=" + t.TempDir(), "--database-url=" + pg.URL(), "--closed-orders=10", "--refs=8"}
	p := start(t, flags...)
	c := dial(t, p.xml)
	frames := []string{
		`<create><account id="1" balance="100000" ref="open"/><account id="2" balance="0" ref="open"/><symbol sym="S">` +
			`<account id="2" ref="shares">1000</account></symbol></create>`,
		`<transactions id="2"><order sym="S" amount="-7" limit="3.50" ref="a:1"/>` +
			`<order sym="S" amount="-1" limit="9" ref="a:2"/></transactions>`,
		`<transactions id="1"><order sym="S" amount="7" limit="3.5" ref="a:1"/></transactions>`,
	}
	var replies []string
	for _, frame := range frames {
		replies = append(replies, c.must(t, frame))
		require.NotContains(t, replies[len(replies)-1], "error")
	}
	query := `<transactions id="2"><query ref="a:1"/><query ref="a:2"/><query id="1"/></transactions>`
	status := c.must(t, query)
	same := func(when string) {
		t.Helper()
		for i, frame := range frames {
			require.Equal(t, replies[i], c.must(t, frame), when)
			other := strings.NewReplacer(`amount="-`, `amount="-1`, `amount="`, `amount="1`, `balance="`,
				`balance="1`).Replace(frame)
			require.Regexp(t, `<error [^>]*ref="\S+">account \d has used ref \S+ before, for something else</error>`,
				c.must(t, other), when)
		}
		require.Equal(t, status, c.must(t, query), when)
	}
	same("at once")

	back := away(t, pg, dir)
	p.kill()
	p = launch(t, flags...)
	back()
	p.waitReady(t)
	c = dial(t, p.xml)
	same("after a kill with Postgres away")

	require.Eventually(t, func() bool { return metric(t, p, "outcry_postgres_lag_records") == 0 }, patience, lookEvery)
	p.kill()
	p = start(t, flags...)
	c = dial(t, p.xml)
	require.Zero(t, metric(t, p, "outcry_refs_in_memory"), "all are in Postgres")
	same("after a kill with all in Postgres")

	// Old refs are only in Postgres. While Postgres is away, the server cannot find out what they were used for.
	back = away(t, pg, dir)
	reply := replies[2]
	require.Eventually(t, func() bool { // a database connection may outlive the postmaster for a moment
		reply = c.must(t, frames[2])
		return reply != replies[2]
	}, patience, time.Millisecond)
	require.Contains(t, reply,
		`<error sym="S" amount="7" limit="3.5" ref="a:1">what ref a:1 was used for is in the database, which does not `+
			`answer now; nothing was done, try again later</error>`)
	back()
	require.Eventually(t, func() bool { return c.must(t, frames[2]) == replies[2] }, patience, 5*time.Millisecond)
	same("with Postgres back")
	p.stop(t)
	require.Equal(t, [][]string{{"3", "6", "3"}}, queryRows(t, pg.URL()))
	conserved(t, pg.URL())
}

// queryRows returns one row with the number of orders, of refs, and of refs that belong to an order.
func queryRows(t *testing.T, database string) [][]string {
	t.Helper()
	return query(t, text(t, database),
		`SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM refs), `+
			`(SELECT count(*) FROM refs JOIN orders ON orders.id = order_id AND orders.account = refs.account)`)
}

// TestClientsThatRetryMakeNoSecondOrder kills the program while eight clients trade. Each client repeats every
// unanswered frame until it is answered.
func TestClientsThatRetryMakeNoSecondOrder(t *testing.T) {
	raced(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, database := dataFlags(t)
	flags = append(flags, "--refs=100", "--closed-orders=100")
	p := start(t, flags...)
	setup := dial(t, p.xml)
	const accounts, symbols, kills = 8, 3, 3
	for id := 1; id <= accounts; id++ {
		create := new(wire.Create).Account(wire.Account{ID: fmt.Sprint(id), Balance: "1000000"})
		for sym := range symbols {
			create.Symbol(fmt.Sprintf("SYM%d", sym), wire.Placement{Account: fmt.Sprint(id), Shares: "100000"})
		}
		require.NotContains(t, setup.must(t, string(create.Append(nil))), "error")
	}
	replied := make([]map[string]string, accounts) // replies by account and ref
	waiting := make([][]string, accounts)          // unanswered frames by account
	for round := range kills + 1 {
		var clients sync.WaitGroup
		enough := make(chan struct{}, 8*10_000)
		for n := range accounts {
			if replied[n] == nil {
				replied[n] = map[string]string{}
			}
			clients.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(round*100+n)))
				waiting[n] = tradeAndRetry(t, p.xml, r, fmt.Sprint(n+1), symbols, replied[n], waiting[n], round == kills, enough)
			})
		}
		if round < kills {
			for range (200 + rand.New(rand.NewPCG(seed, uint64(round))).IntN(200)) / raceFactor {
				<-enough
			}
			p.kill()
		}
		clients.Wait()
		if round < kills {
			p = start(t, flags...)
		}
	}
	p.stop(t)
	conserved(t, database)
	orders := 0
	for n := range accounts {
		require.Empty(t, waiting[n], "the last round answers everything")
		for _, reply := range replied[n] {
			if strings.Contains(reply, "<opened") {
				orders++
			}
		}
	}
	rows := queryRows(t, database)
	require.Equal(t, fmt.Sprint(orders), rows[0][0], "seed %d: as many orders as refs that were answered", seed)
	require.Equal(t, rows[0][0], rows[0][2])
}

// tradeAndRetry sends frames of one order each, four at a time, starting with the frames in waiting. It repeats
// some answered frames: the reply must be the same. It returns the frames that are unanswered when the connection
// ends. If final, it ends the connection itself once all frames are answered.
func tradeAndRetry(
	t *testing.T, addr string, r *rand.Rand, account string, symbols int,
	replied map[string]string, waiting []string, final bool, answered chan<- struct{},
) []string {
	c, err := dialOnce(addr)
	if err != nil {
		return waiting
	}
	defer c.Close()
	for !final || len(waiting) > 0 {
		for len(waiting) < 4 {
			ref := fmt.Sprintf("%s-%d", account, len(replied)+len(waiting))
			frame := string(wire.NewTransactions(account).OrderRef(fmt.Sprintf("SYM%d", r.IntN(symbols)),
				fmt.Sprint(r.IntN(9)-10*r.IntN(2)+1), fmt.Sprint(95+r.IntN(10)), ref).Append(nil))
			waiting = append(waiting, frame)
		}
		var out []byte
		for _, frame := range waiting {
			out = wire.AppendFrame(out, []byte(frame))
		}
		if _, err := c.Write(out); err != nil {
			return waiting
		}
		for len(waiting) > 0 {
			reply, err := c.r.Next()
			if err != nil {
				return waiting
			}
			if before, again := replied[waiting[0]]; again && before != string(reply) {
				t.Errorf("%s was answered with %s, and then with %s", waiting[0], before, reply)
			}
			replied[waiting[0]] = string(reply)
			waiting = waiting[1:]
			answered <- struct{}{}
		}
		for frame := range replied { // an arbitrary answered frame
			if r.IntN(4) == 0 && !final {
				waiting = append(waiting, frame)
			}
			break
		}
	}
	return waiting
}
