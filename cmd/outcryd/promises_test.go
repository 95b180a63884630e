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

// lockState has another session lock what every batch of the projector writes to. The
// function it returns ends that.
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

// came is what has come in answer to requests, a text each.
type came chan string

// xml sends a frame on a connection of its own.
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

// show asks for an order over HTTP.
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

// TestAckPostgresTellsNothingThatPostgresDoesNotHave freezes Postgres. An order is synced
// in the journal then, and is open; neither its reply nor a query, its account's cancel, an
// answer over HTTP, the book or the stream tells of it. The stream says each second how the
// exchange is: all of it had a second to be told.
func TestAckPostgresTellsNothingThatPostgresDoesNotHave(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	s, addr := inProcess(t, append(flags, "--ack=postgres")...)
	web := s.httpAddr.String()
	dial(t, addr).must(t, opening)
	marketUpTo(t, web, s.journal.Appended())
	thaw := lockState(t, database)
	before := s.journal.Appended()
	told := make(came, 8)
	told.xml(t, addr, `<transactions id="1"><order sym="S" amount="5" limit="2"/></transactions>`)
	require.Eventually(t, func() bool { return s.journal.Synced() > before }, patience, time.Millisecond)
	told.xml(t, addr, `<transactions id="1"><query id="1"/></transactions>`)
	// refused for what the first one holds
	told.xml(t, addr, `<transactions id="1"><order sym="S" amount="5" limit="19999"/></transactions>`)
	told.show(t, web, "1")
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
	case answer := <-told:
		t.Fatal("answered without Postgres: ", answer)
	default:
	}
	thaw()
	var all []string
	for range 4 {
		select {
		case answer := <-told:
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
