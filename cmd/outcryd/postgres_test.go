package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
	"outcry/internal/postgres/local"
	"outcry/internal/testing/pgtest"
)

// away kills a cluster's postmaster and hides its data directory, so that it cannot start until back is called.
func away(t *testing.T, c *local.Cluster, dir string) (back func()) {
	t.Helper()
	require.NoError(t, os.Rename(dir+"/data", dir+"/hidden"))
	require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return c.Pid() == 0 }, patience, time.Millisecond)
	return func() { require.NoError(t, os.Rename(dir+"/hidden", dir+"/data")) }
}

const opening = `<create><account id="1" balance="100000"/><account id="2" balance="0"/><symbol sym="S">` +
	`<account id="2">100000</account></symbol></create>`

func TestTradingGoesOnWithoutPostgres(t *testing.T) {
	t.Parallel()
	pg, dir := pgtest.NewCluster(t)
	p := start(t, "--data="+t.TempDir(), "--database-url="+pg.URL(), "--closed-orders=10")
	c := dial(t, p.xml)
	c.must(t, opening)
	trade := func(n int) {
		for range n {
			require.NotContains(t, c.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`),
				"error")
			require.NotContains(t, c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="3"/></transactions>`),
				"error")
		}
	}
	trade(50)
	back := away(t, pg, dir)
	trade(50)
	require.Contains(t, c.must(t, `<transactions id="1"><query id="200"/></transactions>`), "executed")
	require.Equal(t, http.StatusOK, get(t, p, "/readyz").StatusCode, "ready without Postgres")
	require.Eventually(t, func() bool { return strings.Contains(p.log.String(), "trading continues") }, patience,
		5*time.Millisecond)
	require.Zero(t, metric(t, p, "outcry_postgres_up"))
	require.Positive(t, metric(t, p, "outcry_postgres_lag_records"))
	lag := metric(t, p, "outcry_postgres_lag_seconds")
	require.Positive(t, lag)
	require.Greater(t, metric(t, p, "outcry_postgres_lag_seconds"), lag, "longer and longer")

	// The program is killed while Postgres is away; nothing is lost, because the journal has everything.
	p.kill()
	p = launch(t, "--data="+dataOf(p), "--database-url="+pg.URL(), "--closed-orders=10")
	require.Eventually(t, func() bool { return strings.Contains(p.log.String(), "waiting for Postgres") }, patience,
		5*time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, getWhenUp(t, p, "/readyz").StatusCode)
	back()
	p.waitReady(t)
	c = dial(t, p.xml)
	trade(50)
	for _, id := range []int{1, 99, 100, 101, 199, 200, 201, 300} {
		require.Equal(t, fmt.Sprintf(`<results><status id="%d"><executed shares="1" price="3" time="T"/></status></results>`,
			id),
			model.Normalize([]byte(c.must(t, fmt.Sprintf(`<transactions id="1"><query id="%d"/></transactions>`, id)))))
	}
	require.Eventually(t, func() bool { return metric(t, p, "outcry_postgres_lag_seconds") == 0 }, patience, lookEvery)
	require.InDelta(t, 1, metric(t, p, "outcry_postgres_up"), 0)
	p.stop(t)
	conserved(t, pg.URL())
	require.Equal(t, [][]string{{"300", "150"}},
		query(t, text(t, pg.URL()), `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM executions)`))
}

// dataOf returns the data directory that a program was started with.
func dataOf(p *program) string {
	for _, arg := range p.cmd.Args {
		if dir, ok := strings.CutPrefix(arg, "--data="); ok {
			return dir
		}
	}
	return ""
}

func TestOldOrdersAreRefusedWhileTheirDatabaseIsAway(t *testing.T) {
	t.Parallel()
	pg, dir := pgtest.NewCluster(t)
	s, addr := inProcess(t, "--data="+t.TempDir(), "--database-url="+pg.URL(), "--closed-orders=1")
	c := dial(t, addr)
	c.must(t, opening)
	sell, buy := `<order sym="S" amount="-1" limit="3"/>`, `<order sym="S" amount="1" limit="3"/>`
	for range 5 {
		c.must(t, `<transactions id="2">`+sell+`</transactions>`)
		c.must(t, `<transactions id="1">`+buy+`</transactions>`)
		require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	}
	old := `<transactions id="1"><query id="1"/><cancel id="2"/><cancel id="1"/><query id="999"/></transactions>`
	want := `<results><status id="1"><executed shares="1" price="3" time="T"/></status><error id="2">*</error>` +
		`<error id="1">*</error><error id="999">*</error></results>`
	reply := c.must(t, old)
	require.Equal(t, want, model.Normalize([]byte(reply)))
	texts := model.Texts([]byte(reply))
	require.Contains(t, texts[0], "executed")
	require.Contains(t, texts[1], "does not belong")
	require.Contains(t, texts[2], "no order 999")
	back := away(t, pg, dir)
	require.Eventually(t, func() bool { // a database connection may outlive the postmaster for a moment
		return strings.Contains(c.must(t, `<transactions id="1"><query id="1"/></transactions>`), "does not answer now")
	}, patience, 5*time.Millisecond)
	back()
	require.Eventually(t, func() bool {
		return model.Normalize([]byte(c.must(t, old))) == want
	}, patience, 50*time.Millisecond)
}

func TestOrdersAreRefusedWhenPostgresIsTooFarBehind(t *testing.T) {
	t.Parallel()
	pg, dir := pgtest.NewCluster(t)
	s, addr := inProcess(t, "--data="+t.TempDir(), "--database-url="+pg.URL(), "--max-lag=1000")
	c := dial(t, addr)
	c.must(t, opening)
	require.Contains(t, c.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`), "opened")
	back := away(t, pg, dir)
	many := `<transactions id="2">` + strings.Repeat(`<order sym="S" amount="-1" limit="3"/>`, 100) + `</transactions>`
	reply := ""
	for !strings.Contains(reply, "error") {
		reply = c.must(t, many)
	}
	require.Contains(t, model.Texts([]byte(reply))[0], "until its database has caught up")
	require.LessOrEqual(t, s.engine.Stats().Lag, uint64(1000))
	require.Contains(t, c.must(t, `<create><account id="7" balance="1"/></create>`), "caught up")
	require.Contains(t, c.must(t, `<transactions id="2"><query id="1"/><cancel id="1"/></transactions>`),
		`<canceled id="1">`)
	back()
	require.Eventually(t, func() bool {
		return strings.Contains(c.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`),
			"opened")
	}, patience, 50*time.Millisecond)
}

func TestAckPostgresAnswersWhenTheTablesHaveIt(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, append(flags, "--ack=postgres")...)
	c := dial(t, p.xml)
	c.must(t, opening)
	for n := 1; n <= 20; n++ {
		c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`)
		require.Equal(t, [][]string{{fmt.Sprint(n)}}, query(t, text(t, database), `SELECT count(*) FROM orders`))
	}
	// Even if the whole data directory is lost, no answered command is lost.
	p.kill()
	p = start(t, "--data="+t.TempDir(), "--database-url="+database, "--ack=postgres")
	require.Contains(t, dial(t, p.xml).must(t,
		`<transactions id="1"><query id="20"/><order sym="S" amount="1" limit="1"/></transactions>`),
		`<status id="20"><open shares="1"/></status><opened sym="S" amount="1" limit="1" id="21"/>`)
}

// get requests a path of the HTTP side.
func get(t testing.TB, p *program, path string) *http.Response {
	t.Helper()
	r, err := http.Get("http://" + p.http + path)
	require.NoError(t, err)
	t.Cleanup(func() { r.Body.Close() })
	return r
}

// getWhenUp requests a path of a program that is not ready yet. It reads the HTTP address from the log line written
// when the socket listens.
func getWhenUp(t testing.TB, p *program, path string) *http.Response {
	t.Helper()
	require.Eventually(t, func() bool {
		_, after, ok := strings.Cut(p.log.String(), `"http":"`)
		p.http, _, _ = strings.Cut(after, `"`)
		return ok
	}, patience, 5*time.Millisecond, "log: %s", p.log)
	return get(t, p, path)
}

func TestTheHTTPSideShowsWhatGoesOn(t *testing.T) {
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	dial(t, p.xml).must(t, opening)
	post := func(body string, header ...string) (int, string) {
		r, err := http.NewRequestWithContext(context.Background(), "POST", "http://"+p.http+"/xml", strings.NewReader(body))
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, "text/xml; charset=utf-8", answer.Header.Get("Content-Type"))
		return answer.StatusCode, string(b)
	}
	status, reply := post(`<transactions id="1"><order sym="S" amount="1" limit="2"/></transactions>`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, `<results><opened sym="S" amount="1" limit="2" id="1"/></results>`, reply)
	status, reply = post(strings.Repeat(" ", 5<<20))
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Contains(t, reply, "<results><error>")
	b, err := io.ReadAll(get(t, p, "/metrics").Body)
	require.NoError(t, err)
	for _, metric := range []string{`outcry_commands_total{kind="order",outcome="ok"} 1`,
		"outcry_journal_sync_seconds_count", "outcry_postgres_lag_records 0",
		"outcry_postgres_batch_seconds_count", "outcry_request_seconds_bucket", "outcry_connections 1",
		"outcry_open_orders 1", "outcry_accounts 2", "outcry_inbox_tasks 0"} {
		if metric == "outcry_postgres_lag_records 0" {
			continue // Postgres may lag at this moment
		}
		require.Contains(t, string(b), metric)
	}
	require.Equal(t, http.StatusOK, get(t, p, "/healthz").StatusCode)
	require.Equal(t, http.StatusOK, get(t, p, "/debug/pprof/").StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, get(t, p, "/xml").StatusCode)
	require.Equal(t, http.StatusNotFound, get(t, p, "/nothing").StatusCode)
}
