package door

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// asking returns a frame that queries orders for one account, with the XML in between after each query except the
// last.
func asking(between string, orders ...int) string {
	xml := `<transactions id="1">`
	for _, order := range orders {
		xml += fmt.Sprintf(`<query id="%d"/>%s`, order, between)
	}
	return frame(xml + `</transactions>`)
}

const (
	anOrder  = `<order sym="S" amount="1" limit="1"/>`
	anOpened = `<opened sym="S" amount="1" limit="1" id="0"/>`
)

// statuses returns the fake's answer to a query of an order with the given number of executions.
func statuses(executions int, order int) string {
	return fmt.Sprintf(`<status id="%d"><open shares="%d"/>`, order, order) +
		strings.Repeat(`<executed shares="0" price="0" time="0"/>`, executions) + `</status>`
}

func tooLong(order, limit int) string {
	return fmt.Sprintf(`<error id="%d">the reply to this frame is over %d bytes; ask for this order in another `+
		`frame</error>`, order, limit)
}

func TestAReplyThatIsLongEnoughAnswersNoFurtherQuery(t *testing.T) {
	first := "<results>" + statuses(100, 1) + anOpened
	both := len(first + statuses(100, 2) + "</results>")
	for _, test := range []struct {
		limit int
		want  string
	}{
		{both - 1, first + tooLong(2, both-1) + anOpened + tooLong(3, both-1) + anOpened + "</results>"},
		{both, first + statuses(100, 2) + anOpened + tooLong(3, both) + anOpened + "</results>"},
	} {
		for _, together := range []int{1, 10} {
			l, x := listen(t), newFake()
			x.executions = 100
			s := start(t, l, x, Options{ReplyBytesMax: test.limit, BatchFramesMax: together})
			c := dial(t, l)
			frame := asking(anOrder, 1, 2, 3)
			c.send(frame, frame, frame)
			for range 3 {
				require.Equal(t, test.want, c.reply())
			}
			require.Equal(t, 3.0, s.hits(limitReply), "counted once for each reply")
		}
	}
}

func TestAStatusThatIsTooLongAloneSaysWhereItCanBeRead(t *testing.T) {
	whole := "<results>" + statuses(100, 1) + "</results>"
	for limit, want := range map[int]string{
		len(whole): whole,
		len(whole) - 1: fmt.Sprintf(`<results><error id="1">the executions of order 1 take more than %d bytes; `+
			`read them in pages, from /api/v1/orders/1?after=0 on, or in the database</error></results>`, len(whole)-1),
		64: `<results><error id="1">the executions of order 1 take more than 64 bytes; ` +
			`read them in pages, from /api/v1/orders/1?after=0 on, or in the database</error></results>`,
	} {
		for _, past := range []exchange.OrderID{0, 1} { // order 1 is in memory, then only in the database
			l, x := listen(t), newFake()
			x.executions, x.past = 100, past
			start(t, l, x, Options{ReplyBytesMax: limit})
			c := dial(t, l)
			c.send(query(1))
			require.Equal(t, want, c.reply())
		}
	}
}

// A command that was done is never answered with an error that hides that it was done.
func TestACancelThatIsTooLongToTellSaysThatItIsDone(t *testing.T) {
	l, x := listen(t), newFake()
	x.executions = 100
	m := NewMetrics()
	start(t, l, x, Options{ReplyBytesMax: 4000, Metrics: m})
	c := dial(t, l)
	c.send(frame(`<transactions id="1"><cancel id="1"/><query id="9"/></transactions>`))
	tooLong := func(order int) string {
		return fmt.Sprintf(`the executions of order %d take more than 4000 bytes; read them in pages, from `+
			`/api/v1/orders/%d?after=0 on, or in the database</error>`, order, order)
	}
	require.Equal(t, `<results><error id="1">order 1 is canceled; `+tooLong(1)+`<error id="9">`+tooLong(9)+`</results>`,
		c.reply())
	require.Equal(t, 1.0, testutil.ToFloat64(m.commands.WithLabelValues("cancel", "ok")))
	require.Equal(t, 1.0, testutil.ToFloat64(m.commands.WithLabelValues("query", "reply_too_long")))
	require.Equal(t, 1.0, testutil.ToFloat64(m.byLimit[limitReply]), "counted once for each reply")
}

func TestOrdersThatAreOnlyInTheDatabaseAreFetchedOneByOne(t *testing.T) {
	l, x := listen(t), newFake()
	x.past, x.executions = 3, 100
	start(t, l, x, Options{ReplyBytesMax: 9000})
	c := dial(t, l)
	c.send(asking("", 4, 3, 2, 1), query(1))
	require.Equal(t, "<results>"+statuses(100, 4)+statuses(100, 3)+tooLong(2, 9000)+tooLong(1, 9000)+"</results>",
		c.reply())
	require.Equal(t, "<results>"+statuses(100, 1)+"</results>", c.reply())
	require.Equal(t, []int{3, 2, 1}, x.recalled, "no order is fetched after the first unanswered one")
}

func TestADatabaseThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	l, x := listen(t), newFake()
	x.past, x.away = 3, true
	start(t, l, x, Options{BatchFramesMax: 1})
	c := dial(t, l)
	gone := func(order int) string {
		return fmt.Sprintf(`<error id="%d">order %d was closed long ago, and the database that knows it does not answer `+
			`now</error>`, order, order)
	}
	c.send(asking("", 1, 2, 4, 3))
	require.Equal(t, "<results>"+gone(1)+gone(2)+statuses(0, 4)+gone(3)+"</results>", c.reply())
	require.Equal(t, []int{1}, x.recalled)
	x.set(func() { x.away = false })
	c.send(query(2))
	require.Equal(t, answer(2), c.reply())
}

func TestALargeReplyIsTakenBeforeManyMoreAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.executions = 10, 5000
		start(t, p, x, Options{})
		c := connect(t, p)
		var frames, want []string
		for order := 1; order <= 10; order++ {
			frames = append(frames, query(order))
			want = append(want, "<results>"+statuses(5000, order)+"</results>")
		}
		c.send(frames...)
		synctest.Wait()
		require.Equal(t, []int{10}, x.calls, "executed together")
		require.Equal(t, []int{1, 2}, x.recalled, "one reply is being sent, one waits for room")
		for order := range want {
			require.Equal(t, want[order], c.reply())
		}
	})
}
