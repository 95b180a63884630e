package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/testing/pgtest"
	"outcry/internal/testing/rpctest"
	"outcry/internal/view/accounts"
)

// blocker is a listener that blocks its view from the first event on until it is released.
type blocker struct{ released chan struct{} }

func (b blocker) Event(*exchange.AccountEvent) { <-b.released }
func (b blocker) Flush()                       {}
func (b blocker) End(error)                    {}

// slowed returns how often clients had to wait for the followers of the journal.
func (s *server) slowed(t *testing.T) (hits float64) {
	all := prometheus.NewRegistry()
	require.NoError(t, all.Register(s.metrics.sessions))
	families, err := all.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "outcry_limit_hits_total" && m.GetLabel()[0].GetValue() == "followers" {
				hits = m.GetCounter().GetValue()
			}
		}
	}
	return hits
}

// TestAViewThatLagsSlowsItsCause: while the view of accounts is slow, the server delays the connection whose orders it
// has not processed yet, and serves others. Both followers are known to the sessions.
func TestAViewThatLagsSlowsItsCause(t *testing.T) {
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, flags...)
	require.Len(t, s.followers, 2, "the view and the feed")
	heavy, other := dial(t, addr), dial(t, addr)
	other.must(t,
		`<create><account id="1" balance="1000000"/><account id="2" balance="1000000"/><symbol sym="A"/></create>`)
	const order = `<order sym="A" amount="1" limit="1"/>`
	release := s.block(t)
	heavy.must(t, `<transactions id="1">`+strings.Repeat(order, 20_000)+`</transactions>`)
	answered := make(chan error, 1)
	go func() {
		_, err := heavy.ask(`<transactions id="1">` + order + `</transactions>`)
		answered <- err
	}()
	assert.Eventually(t, func() bool { return s.slowed(t) == 1 }, 20*time.Second, time.Millisecond, "it waits")
	other.must(t, `<transactions id="2">`+order+`</transactions>`)
	other.must(t, `<create><account id="3" balance="1"/><symbol sym="B"/></create>`)
	seq := s.journal.Appended()
	require.EqualValues(t, 20_000+1+2, seq-3, "all but the waiting order: %d", seq)
	release()
	require.NoError(t, <-answered)
}

// block stops the view of accounts at its next record until release is called.
func (s *server) block(t *testing.T) (release func()) {
	b := blocker{make(chan struct{})}
	release = sync.OnceFunc(func() { close(b.released) })
	t.Cleanup(release)
	seq := s.journal.Appended()
	require.Eventually(t, func() bool { return s.view.Seq() == seq }, patience, time.Millisecond)
	_, err := s.view.Subscribe("1", 0, false, b, func(*accounts.Snapshot, []*exchange.AccountEvent) {})
	require.NoError(t, err)
	return release
}

// post sends a frame over HTTP and returns the reply.
func (s *server) post(xml string) (string, error) {
	r, err := http.Post("http://"+s.httpAddr.String()+"/xml", "text/xml", strings.NewReader(xml))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	reply, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%d %s", r.StatusCode, reply), err
}

// TestAllDoorsSlowTheirClients: an account that makes the view lag waits over TCP and over HTTP, also with a large
// frame on a new connection or a body of more than 64 KiB, of which nothing is executed before the wait ends.
// Others trade, cancel all their orders and make accounts. A stop ends the waits, and what has arrived is
// executed.
func TestAllDoorsSlowTheirClients(t *testing.T) {
	t.Parallel()
	skipUnlessRaced(t)
	flags, _ := dataFlags(t)
	s, addr, err := tryInProcess(flags...)
	require.NoError(t, err)
	stop := sync.OnceValue(s.stop)
	t.Cleanup(func() { require.NoError(t, stop()) })
	heavy, large, other := dial(t, addr), dial(t, addr), dial(t, addr)
	other.must(t,
		`<create><account id="1" balance="1000000"/><account id="2" balance="1000000"/><symbol sym="A"/></create>`)
	const order = `<order sym="A" amount="1" limit="1"/>`
	orders := func(account, n int) string {
		return fmt.Sprintf(`<transactions id="%d">%s</transactions>`, account, strings.Repeat(order, n))
	}
	other.must(t, orders(2, 10))
	release := s.block(t)
	for range 4 { // none waits: 60,000 are within the share of the account
		dial(t, addr).must(t, orders(1, 20_000))
	}
	before := s.journal.Appended()
	type answer struct {
		reply string
		err   error
	}
	answers := make(chan answer, 4)
	for _, ask := range []func() (string, error){
		func() (string, error) { return heavy.ask(orders(1, 1)) },
		func() (string, error) { return large.ask(orders(1, 1500)) }, // needs memory of --max-memory
		func() (string, error) { return s.post(orders(1, 1)) },
		func() (string, error) { return s.post(orders(1, 3000)) }, // 111 KiB
	} {
		go func() {
			reply, err := ask()
			answers <- answer{reply, err}
		}()
	}
	require.Eventually(t, func() bool { return s.slowed(t) >= 4 }, patience, time.Millisecond, "all four wait")
	require.Contains(t, other.must(t, `<transactions id="2"><cancel-all/></transactions>`), `<canceled`)
	require.NotContains(t, other.must(t, `<create><account id="3" balance="1"/><symbol sym="B"/></create>`), "<error")
	reply, err := s.post(orders(2, 3000))
	require.NoError(t, err)
	require.NotContains(t, reply, "<error", "a large body of another account")
	require.EqualValues(t, before+1+2+3000, s.journal.Appended(), "nothing that waits is executed")
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for range 4 {
		a := <-answers
		require.NoError(t, a.err)
		require.Contains(t, a.reply, "<opened")
	}
	release()
	require.NoError(t, <-stopped)
}

// TestPostgresAwaySlowsNoClientForTheViews: with --ack=postgres the views may not see what Postgres does not have. So
// while Postgres is away no client waits for them and no order is rejected because of them, however much its client
// sends. Once Postgres is back, all are answered.
func TestPostgresAwaySlowsNoClientForTheViews(t *testing.T) {
	pg, dir := pgtest.NewCluster(t)
	s, addr := inProcess(t, "--data="+t.TempDir(), "--database-url="+pg.URL(), "--ack=postgres")
	light := dial(t, addr)
	light.must(t,
		`<create><account id="1" balance="1000000"/><account id="2" balance="1000000"/><symbol sym="A"/></create>`)
	w := rpctest.Dial(t, s.httpAddr.String(), "")
	const place = `{"account":"2","sym":"A","amount":"1","limit":"1"}`
	w.Must("order.place", place)
	back := away(t, pg, dir)
	returned := sync.OnceFunc(back)
	before := s.journal.Appended()

	executed := func(more int) {
		require.Eventually(t, func() bool { return s.journal.Appended() >= before+uint64(more) }, patience, time.Millisecond)
	}
	// The first frame of each connection is more than its share, and all are more than that of their account.
	const order, connections, each = `<order sym="A" amount="1" limit="1"/>`, 4, 17_000
	first := wire.AppendFrame(nil, []byte(`<transactions id="1">`+strings.Repeat(order, each)+`</transactions>`))
	second := wire.AppendFrame(nil, []byte(`<transactions id="1">`+order+`<query id="1"/></transactions>`))
	var sending sync.WaitGroup
	defer sending.Wait()
	defer returned()
	for range connections {
		heavy := dial(t, addr)
		sending.Go(func() {
			_, err := heavy.Write(append(first[:len(first):len(first)], second...))
			assert.NoError(t, err)
			for range 2 {
				reply, err := heavy.r.Next()
				assert.NoError(t, err)
				assert.NotContains(t, string(reply), "<error")
			}
		})
	}
	executed(connections * (each + 1))
	lightly := make(chan string, 1)
	go func() {
		reply, _ := light.ask(`<transactions id="2">` + order + `<cancel-all/></transactions>`)
		lightly <- reply
	}()
	executed(connections*(each+1) + 2)
	w.Send("order.place", place)
	executed(connections*(each+1) + 3)
	require.Zero(t, s.slowed(t), "no client waits for the views")
	require.Empty(t, lightly, "Postgres does not have it")
	returned()
	require.Contains(t, <-lightly, "<canceled")
	require.Nil(t, w.Next().Error)
	sending.Wait()
}
