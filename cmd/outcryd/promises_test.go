package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// lockState locks, from another session, a table that every batch of the projector writes to. thaw releases the lock.
func lockState(t testing.TB, database string) (thaw func()) {
	t.Helper()
	db, err := pgx.Connect(background, database)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close(background) })
	tx, err := db.Begin(background)
	require.NoError(t, err)
	_, err = tx.Exec(background, `LOCK TABLE exchange_state IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(background)) }
}

// came receives the answers to requests, as text.
type came chan string

// xml sends a frame on a new connection. Its goroutine puts the reply into a.
func (a came) xml(t testing.TB, addr, frame string) {
	t.Helper()
	c := dial(t, addr)
	_, err := c.Write(wire.AppendFrame(nil, []byte(frame)))
	require.NoError(t, err)
	go func() {
		reply, err := c.r.Next()
		if err != nil {
			reply = []byte(err.Error())
		}
		a <- string(reply)
	}()
}

// show requests an order over HTTP. Its goroutine puts the status line into a.
func (a came) show(t testing.TB, addr, id string) {
	t.Helper()
	go func() {
		response, err := http.Get("http://" + addr + "/api/v1/orders/" + id)
		if err != nil {
			a <- err.Error()
			return
		}
		defer response.Body.Close()
		a <- response.Status
	}()
}

// TestAckPostgresTellsNothingThatPostgresDoesNotHave blocks writes to Postgres. An order is then synced in the
// journal and open, but must stay invisible: in its reply, a query, a refusal that depends on it, an answer over
// HTTP, the book and the stream. The stream's health event comes once a second, so the test waits for three of them
// before it concludes that nothing was sent.
func TestAckPostgresTellsNothingThatPostgresDoesNotHave(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	s, addr := inProcess(t, append(flags, "--ack=postgres")...)
	web := s.httpAddr.String()
	dial(t, addr).must(t, opening)
	marketUpTo(t, web, s.journal.Appended())
	thaw := lockState(t, database)
	before := s.journal.Appended()
	replied := make(came, 8)
	replied.xml(t, addr, `<transactions id="1"><order sym="S" amount="5" limit="2"/></transactions>`)
	require.Eventually(t, func() bool { return s.journal.Synced() > before }, patience, time.Millisecond)
	replied.xml(t, addr, `<transactions id="1"><query id="1"/></transactions>`)
	// this order is refused because the first order holds the cash
	replied.xml(t, addr, `<transactions id="1"><order sym="S" amount="5" limit="19999"/></transactions>`)
	replied.show(t, web, "1")
	stream := openStream(t, web, "sym=S")
	for seconds := 0; seconds < 3; {
		name, data := stream.next()
		require.NotEmpty(t, name)
		if name == "health" {
			seconds++
		}
		require.NotContains(t, data, `["2","5"]`, "%s of the stream", name)
	}
	var book publicBook
	ask(t, web, "/api/v1/book/S", http.StatusOK, &book)
	require.Empty(t, book.Bids)
	require.Equal(t, before, s.feed.Seq())
	require.Equal(t, before, s.projector.Applied())
	select {
	case answer := <-replied:
		t.Fatal("answered without Postgres: ", answer)
	default:
	}
	thaw()
	var all []string
	for range 4 {
		select {
		case answer := <-replied:
			all = append(all, answer)
		case <-time.After(patience):
			t.Fatal("not all is answered: ", all)
		}
	}
	answers := strings.Join(all, "\n")
	require.Contains(t, answers, `<opened sym="S" amount="5" limit="2" id="1"/>`)
	require.Contains(t, answers, `<status id="1"><open shares="5"/></status>`)
	require.Contains(t, answers, "200 OK")
	marketUpTo(t, web, before+1)
	ask(t, web, "/api/v1/book/S", http.StatusOK, &book)
	require.Equal(t, [][2]string{{"2", "5"}}, book.Bids)
}
