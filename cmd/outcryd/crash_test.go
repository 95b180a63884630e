package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/budget"
)

// replied has what clients learned about orders before a crash, by order id: the answer with the most executions, and
// the answer to a cancel.
type replied struct {
	mu       sync.Mutex
	orders   map[string]wire.Answer
	canceled map[string]wire.Answer
	last     int // highest order id in any answer
}

func (k *replied) record(answers []wire.Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range answers {
		switch a.Kind {
		case "opened":
			if _, ok := k.orders[a.ID]; !ok {
				k.orders[a.ID] = wire.Answer{}
			}
			var id int
			fmt.Sscan(a.ID, &id)
			k.last = max(k.last, id)
		case "status", "canceled":
			if len(a.Executed) >= len(k.orders[a.ID].Executed) {
				k.orders[a.ID] = a
			}
			if a.Kind == "canceled" {
				k.canceled[a.ID] = a
			}
		}
	}
}

// TestKillUnderLoadLosesNothing kills the program at random moments while eight clients trade, restarts it, and
// compares it with the answers: every order is present with at least the executions answered, canceled orders stay
// canceled, cash and shares add up in the tables, and new ids are above all ids answered.
func TestKillUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	flags, database := dataFlags(t)
	flags = append(flags, "--closed-orders=500")
	const accounts, symbols = 20, 4
	p := start(t, flags...)
	setup := dial(t, p.xml)
	for id := 1; id <= accounts; id++ {
		create := new(wire.Create).Account(wire.Account{ID: fmt.Sprint(id), Balance: "100000"})
		for sym := range symbols {
			create.Symbol(fmt.Sprintf("SYM%d", sym), wire.Placement{Account: fmt.Sprint(id), Shares: "1000"})
		}
		require.NotContains(t, setup.must(t, string(create.Append(nil))), "error")
	}
	known := &replied{orders: map[string]wire.Answer{}, canceled: map[string]wire.Answer{}}
	for round := range 1 + budget.Of(5) {
		before := known.last
		var clients sync.WaitGroup
		enough := make(chan struct{}, 8*10_000)
		for n := range 8 {
			clients.Go(func() {
				trade(p.xml, rand.New(rand.NewPCG(seed, uint64(round*100+n))), accounts, symbols, known, enough)
			})
		}
		for range 100 + r.IntN(400)/raceFactor {
			<-enough // wait for this many answers before the kill
		}
		p.kill()
		clients.Wait()
		p = start(t, flags...)
		require.Greater(t, known.last, before)
		compareTold(t, dial(t, p.xml), known, fmt.Sprintf("seed %d round %d", seed, round))
	}
	p.stop(t)
	conserved(t, database)
	require.Empty(t, query(t, database, `SELECT id FROM orders GROUP BY id HAVING count(*) > 1`))
}

// trade sends pipelined frames until the connection breaks.
func trade(addr string, r *rand.Rand, accounts, symbols int, known *replied, answered chan<- struct{}) {
	c, err := dialOnce(addr)
	if err != nil {
		return
	}
	defer c.Close()
	var mine []string
	for {
		const depth = 4
		var out []byte
		for range depth {
			out = wire.AppendFrame(out, []byte(randomTrades(r, fmt.Sprint(1+r.IntN(accounts)), symbols, mine)))
		}
		if _, err := c.Write(out); err != nil {
			return
		}
		for range depth {
			reply, err := c.r.Next()
			if err != nil {
				return
			}
			answers, err := wire.ParseReply(reply)
			if err != nil {
				return
			}
			known.record(answers)
			for _, a := range answers {
				if a.Kind == "opened" {
					mine = append(mine, a.ID)
				}
			}
			answered <- struct{}{}
		}
	}
}

// compare requires that an order agrees with everything that clients' answers said; it may have more executions.
func (k *replied) compare(t *testing.T, id string, now wire.Answer, where string) {
	t.Helper()
	before := k.orders[id]
	require.Equal(t, "status", now.Kind, "%s: order %s: %s", where, id, now.Error)
	require.Equal(t, id, now.ID, where)
	require.GreaterOrEqual(t, len(now.Executed), len(before.Executed), "%s: order %s", where, id)
	require.Equal(t, append([]wire.Executed{}, before.Executed...),
		append([]wire.Executed{}, now.Executed[:len(before.Executed)]...), "%s: order %s", where, id)
	if canceled, ok := k.canceled[id]; ok {
		require.Equal(t, canceled, wire.Answer{Kind: "canceled", ID: id, Canceled: now.Canceled, CanceledAt: now.CanceledAt,
			Executed: now.Executed}, "%s: order %s", where, id)
		require.Empty(t, now.Open, "%s: order %s", where, id)
	}
}

// compareTold queries every order of known and compares it, and requires that a new order gets a higher id.
func compareTold(t *testing.T, c *conn, known *replied, where string) {
	t.Helper()
	for ids := range slices.Chunk(slices.Collect(maps.Keys(known.orders)), 100) {
		ask := wire.NewTransactions("1")
		for _, id := range ids {
			ask.Query(id)
		}
		answers, err := wire.ParseReply([]byte(c.must(t, string(ask.Append(nil)))))
		require.NoError(t, err)
		require.Len(t, answers, len(ids))
		for i, id := range ids {
			known.compare(t, id, answers[i], where)
		}
	}
	reply := c.must(t, `<create><account id="424242" balance="1"/></create>`)
	if !strings.Contains(reply, "error") {
		c.must(t, `<create><symbol sym="ID"/></create>`)
	}
	reply = c.must(t, `<transactions id="424242"><order sym="ID" amount="0.00000001" limit="0.00000001"/></transactions>`)
	answers, err := wire.ParseReply([]byte(reply))
	require.NoError(t, err)
	require.Equal(t, "opened", answers[0].Kind, answers[0].Error)
	var id int
	fmt.Sscan(answers[0].ID, &id)
	require.Greater(t, id, known.last, "%s: ids go on", where)
}
