package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/model"
	"outcry/internal/operate/remote"
	"outcry/internal/testing/budget"
)

func operatorOf(p *program) *remote.Client { return remote.NewClient(p.http, patience, nil) }

// TestAHaltOutlivesACrash halts and resumes a symbol over HTTP, and checks what clients, market data, metrics and the
// status show, before and after a kill.
func TestAHaltOutlivesACrash(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	dial(t, p.xml).must(t, opening)
	dial(t, p.xml).must(t, `<create><symbol sym="T"/></create>`)
	op := operatorOf(p)
	first, err := op.Halt(background, "S", `news <&"`)
	require.NoError(t, err)
	require.True(t, first.Changed)
	again, err := op.Halt(background, "S", "other news")
	require.NoError(t, err)
	require.Equal(t, remote.HaltAnswer{Sym: "S", Halted: first.Halted}, again)
	_, err = op.Halt(background, "T", "")
	require.NoError(t, err)
	ended, err := op.Resume(background, "T")
	require.NoError(t, err)
	require.True(t, ended.Changed)
	require.Empty(t, ended.Ended.Reason)
	p.kill()

	p = start(t, flags...)
	op, c := operatorOf(p), dial(t, p.xml)
	since := time.Unix(first.Halted.Time, 0).UTC().Format(time.RFC3339)
	require.Equal(t, `<results><error sym="S" amount="1" limit="1">symbol S is halted since `+since+
		` and accepts no orders; cancel and query work: news &lt;&amp;"</error></results>`, c.must(t,
		`<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`))
	require.NotContains(t, c.must(t, `<create><symbol sym="S"><account id="1">5</account></symbol></create>`), "error")
	require.EqualValues(t, 1, metric(t, p, "outcry_symbols_halted"))
	status, err := op.Status(background)
	require.NoError(t, err)
	require.True(t, status.Ready, status.Why)
	require.Equal(t, []remote.HaltedSymbol{{Sym: "S", Halt: *first.Halted}}, status.Exchange.Halted)
	require.Eventually(t, func() bool {
		text, err := io.ReadAll(get(t, p, "/api/v1/symbols").Body)
		return err == nil && strings.Contains(string(text),
			fmt.Sprintf(`"halted":{"time":%d,"reason":"news \u003c\u0026\""}`, first.Halted.Time))
	}, patience, 5*time.Millisecond)
	ended, err = op.Resume(background, "S")
	require.NoError(t, err)
	require.Equal(t, remote.HaltAnswer{Sym: "S", Changed: true, Ended: first.Halted}, ended)
	require.Contains(t, c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`), "opened")
	p.stop(t)
	require.Empty(t, query(t, database, `SELECT sym FROM symbols WHERE halted_at IS NOT NULL`))
	require.Len(t, query(t, database, `SELECT seq FROM halt_log`), 4)
}

// TestOperationsAreRefusedWithTheReason requests impossible operations; nothing changes.
func TestOperationsAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, append(flags, "--segment=65536")...)
	c := dial(t, p.xml)
	c.must(t, opening)
	tx := wire.NewTransactions("2")
	for range 4000 {
		tx.Order("S", "-1", "3")
	}
	require.NotContains(t, c.must(t, string(tx.Append(nil))), "error")
	long := strings.Repeat("x", 201)
	for _, r := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"POST", "halt", 400, `symbol "" is not 1 to 32 characters`},
		{"POST", "halt?sym=S&reason=" + long, 400, "has more than 200 characters"},
		{"POST", "halt?sym=S&reason=a%0Ab", 400, "cannot be printed"},
		{"POST", "halt?sym=S&sym=T", 400, "sym is given 2 times"},
		{"POST", "halt?sym=S&why=x", 400, "unknown parameter; the known ones are"},
		{"POST", "halt?sym=S;reason=x", 400, "cannot be read"},
		{"POST", "halt?sym=NONE", 404, "there is no symbol NONE"},
		{"POST", "resume?sym=NONE", 404, "there is no symbol NONE"},
		{"POST", "resume?sym=", 400, "sym is empty"},
		{"POST", "cancel-all", 400, `account id "" is not 1 to 64 digits`},
		{"POST", "cancel-all?account=x", 400, "is not made of digits"},
		{"POST", "cancel-all?account=9", 404, "there is no account 9"},
		{"POST", "cancel-all?account=2&sym=NONE", 404, "there is no symbol NONE"},
		{"POST", "cancel-all?account=2&sym=", 400, "sym is empty"},
		{"POST", "cancel-all?account=2&symbol=S", 400, "unknown parameter; the known ones are"},
		{"POST", "cancel-all?account=2", 409,
			"account 2 has more open orders than fit into one record of the journal, and nothing is canceled; " +
				"cancel symbol by symbol"},
		{"GET", "halt?sym=S", 405, ""},
		{"GET", "cancel-all?account=2", 405, ""},
		{"POST", "status", 405, ""},
	} {
		request, err := http.NewRequest(r.method, "http://"+p.http+"/admin/"+r.path, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, r.status, response.StatusCode, "%s: %s", r.path, text)
		require.Contains(t, string(text), strings.ReplaceAll(r.text, `"`, `\"`), r.path)
	}
	request, err := http.NewRequest("POST", "http://"+p.http+"/admin/halt?sym=S", nil)
	require.NoError(t, err)
	request.Header.Set("Origin", "https://elsewhere.example")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 403, response.StatusCode, "a page from elsewhere")
	require.Contains(t, c.must(t,
		`<transactions id="2"><query id="1"/><query id="4000"/><order sym="S" amount="-1" limit="3"/></transactions>`),
		`<status id="1"><open shares="1"/></status><status id="4000"><open shares="1"/></status><opened`)
}

// TestSessionsAndOperatorsAgreeWithTheModel lets four sessions and an operator send random commands of the whole
// protocol, one at a time in random order. It kills the program now and then, which cancels the orders of ended
// connections. Each reply, and the tables at the end, must agree with the model.
func TestSessionsAndOperatorsAgreeWithTheModel(t *testing.T) {
	raced(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	flags, database := dataFlags(t)
	flags = append(flags, "--closed-orders=100")
	p := start(t, flags...)
	x, g := model.New(), model.NewGenerator(seed, 4, 12).Instruct()
	var sessions [4]*conn
	var twins [4]*model.Connection
	connect := func() {
		for i := range sessions {
			sessions[i], twins[i] = dial(t, p.xml), x.Connect()
		}
	}
	connect()
	op, canceled, halts := operatorOf(p), 0, 0
	for n := 1; g.Commands() < budget.Of(6000); n++ {
		frame := g.Frame()
		i := r.IntN(len(sessions))
		want := twins[i].Do(frame, 1)
		got := sessions[i].must(t, string(frame))
		require.Equal(t, model.Normalize(want), model.Normalize([]byte(got)), "seed %d, after %d commands: %s", seed,
			g.Commands(), frame)
		g.Observe([]byte(got))
		if n > 12 && r.IntN(4) == 0 {
			c, h := operateBoth(t, r, op, x)
			canceled, halts = canceled+c, halts+h
		}
		if n%budget.Of(600) == 0 {
			p.kill()
			x.Disconnect(1, twins[:]...)
			p = start(t, flags...)
			op = operatorOf(p)
			connect()
		}
	}
	require.NotZero(t, canceled)
	require.NotZero(t, halts)
	last := dial(t, p.xml)
	for i, twin := range twins {
		require.NoError(t, sessions[i].Close())
		twin.Close(1)
		awaitCanceled(t, last, x, seed) // otherwise orders of the next connection might be canceled together with these
	}
	require.NoError(t, x.Check())
	p.stop(t)
	compareTables(t, database, x)
}

// operateBoth performs one random operation on the exchange and on its model. It returns how many orders were canceled
// and how many symbols were halted.
func operateBoth(t *testing.T, r *rand.Rand, op *remote.Client, x *model.Exchange) (canceled, halts int) {
	t.Helper()
	sym, account := fmt.Sprintf("SYM%d", r.IntN(4)), fmt.Sprint(1+r.IntN(12))
	switch r.IntN(8) {
	case 0:
		got, err := op.Halt(background, sym, "news")
		require.NoError(t, err)
		require.Equal(t, x.Halt(sym), got.Changed)
		return 0, 1
	case 1, 2, 3, 4:
		got, err := op.Resume(background, sym)
		require.NoError(t, err)
		require.Equal(t, x.Resume(sym), got.Changed)
		return 0, 0
	case 5:
		sym = ""
	}
	got, err := op.CancelAll(background, account, sym)
	require.NoError(t, err)
	replied, orders := map[string]model.Canceled{}, 0
	for _, in := range got.Symbols {
		replied[in.Sym] = model.Canceled{Orders: in.Orders, Shares: in.Shares}
		orders += in.Orders
	}
	require.Equal(t, x.CancelAll(account, sym, 1), replied)
	require.Equal(t, orders, got.Orders)
	return orders, 0
}

// TestAKillAroundACancelAllLeavesAllOrNothingOfIt kills the program while it cancels all of an account's orders in
// eight symbols. If the cancel was answered, it must be complete.
func TestAKillAroundACancelAllLeavesAllOrNothingOfIt(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	flags, database := dataFlags(t)
	p := start(t, flags...)
	const symbols, orders = 8, 25
	create := new(wire.Create).Account(wire.Account{ID: "1", Balance: "1000000"})
	for sym := range symbols {
		create.Symbol(fmt.Sprintf("SYM%d", sym), wire.Placement{Account: "1", Shares: "1000"})
	}
	require.NotContains(t, dial(t, p.xml).must(t, string(create.Append(nil))), "error")
	for round := range 4 {
		tx := wire.NewTransactions("1")
		for n := range symbols * orders {
			tx.Order(fmt.Sprintf("SYM%d", n%symbols), []string{"1.5", "-2"}[n/symbols%2], []string{"3", "4"}[n/symbols%2])
		}
		c := dial(t, p.xml)
		answers, err := wire.ParseReply([]byte(c.must(t, string(tx.Append(nil)))))
		require.NoError(t, err)
		answered := make(chan error, 1)
		go func() {
			_, err := operatorOf(p).CancelAll(background, "1", "")
			answered <- err
		}()
		time.Sleep(time.Duration(r.Int64N(int64(6 * time.Millisecond)))) // so that the kill can hit any moment
		p.kill()
		err = <-answered
		var refused *remote.Error
		require.False(t, errors.As(err, &refused), "seed %d: %v", seed, err)
		p = start(t, flags...)
		ask := wire.NewTransactions("1")
		for _, a := range answers {
			require.Equal(t, "opened", a.Kind)
			ask.Query(a.ID)
		}
		c = dial(t, p.xml)
		now, err2 := wire.ParseReply([]byte(c.must(t, string(ask.Append(nil)))))
		require.NoError(t, err2)
		gone := 0
		for _, a := range now {
			require.Equal(t, a.Open == "", a.Canceled != "")
			if a.Canceled != "" {
				gone++
			}
		}
		require.Contains(t, []int{0, symbols * orders}, gone, "seed %d, round %d", seed, round)
		if err == nil {
			require.Equal(t, symbols*orders, gone, "it was answered; seed %d, round %d", seed, round)
		}
		_, err = operatorOf(p).CancelAll(background, "1", "") // cancels any orders that are left
		require.NoError(t, err)
	}
	p.stop(t)
	conserved(t, database)
	require.Equal(t, [][]string{{"1000000", "0"}}, query(t, text(t, database), `SELECT balance, held FROM accounts`))
}

// TestTheStatusSaysWhatMatters reads the status while the exchange starts without Postgres, and while it trades.
func TestTheStatusSaysWhatMatters(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, append(flags, "--max-connections=1")...)
	op, c := operatorOf(p), dial(t, p.xml)
	c.must(t, opening)
	c.must(t, `<transactions id="2"><order sym="S" amount="-3" limit="3"/></transactions>`)
	refused, err := io.ReadAll(dial(t, p.xml)) // a connection over the limit
	require.NoError(t, err)
	require.Contains(t, string(refused), "error")
	var s remote.Status
	require.Eventually(t, func() bool {
		s, err = op.Status(background)
		return err == nil && s.Exchange.Load != nil && len(s.Exchange.Load.Limits) > 0 && s.Exchange.Postgres.LagRecords == 0
	}, patience, 20*time.Millisecond)
	x := s.Exchange
	require.True(t, s.Ready)
	require.Empty(t, s.Why)
	require.NotEmpty(t, s.Version)
	require.NotZero(t, s.UptimeSeconds)
	require.Greater(t, s.MemoryBytes, uint64(1<<20))
	require.Positive(t, s.Disk.Available)
	require.Equal(t, remote.Journal{Appended: 5, Synced: 5, Segments: x.Journal.Segments, RoomBytes: x.Journal.RoomBytes},
		x.Journal)
	require.Equal(t, remote.Postgres{Up: true, Applied: 5}, x.Postgres)
	require.Equal(t, [4]int64{2, 1, 1, 0}, [4]int64{x.Accounts, x.Symbols, x.OpenOrders, x.HaltedSymbols})
	require.Equal(t, 1, x.Load.Connections)
	require.Equal(t, []remote.LimitHit{{Limit: "connections", Count: 1, Last: x.Load.Limits[0].Last}}, x.Load.Limits)
	require.Empty(t, x.MarketData)
}

// TestTheStatusOfAnExchangeThatStartsSaysWhyItIsNotReady starts a server whose database cannot be reached.
func TestTheStatusOfAnExchangeThatStartsSaysWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	p := launch(t, "--data="+t.TempDir(), "--database-url=postgres:///x?host=/nowhere")
	response := getWhenUp(t, p, "/admin/status")
	require.Equal(t, 200, response.StatusCode)
	var s remote.Status
	require.Eventually(t, func() bool {
		var err error
		s, err = operatorOf(p).Status(background)
		return err == nil && strings.Contains(s.Why, "/nowhere")
	}, patience, 20*time.Millisecond)
	require.False(t, s.Ready)
	require.Nil(t, s.Exchange)
	_, err := operatorOf(p).Halt(background, "S", "")
	var refused *remote.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 503, refused.Status)
	require.Contains(t, refused.Text, "/nowhere")
}
