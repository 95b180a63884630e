package door

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// fakeView is a view in which every account has a number of fills, once the view includes a given record.
type fakeView struct {
	mu    sync.Mutex
	fills int
	seq   uint64
	moved *sync.Cond
	asked []uint64 // records that callers waited for
	fails bool
	old   bool // fills are only in the database, which does not answer
	tried int  // how often the database was queried
}

func newFakeView() *fakeView {
	v := &fakeView{fills: 3}
	v.moved = sync.NewCond(&v.mu)
	return v
}

func (v *fakeView) reach(seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seq = seq
	v.moved.Broadcast()
}

func (v *fakeView) Show(_ context.Context, c *exchange.Command, r *exchange.Result, history bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, r.AsOf)
	for v.seq < r.AsOf {
		v.moved.Wait()
	}
	if v.fails {
		*r = exchange.Result{Reason: exchange.ViewUnavailable}
		return
	}
	if v.old && c.Kind == exchange.ListFills {
		if history {
			v.tried++
		}
		*r = exchange.Result{Reason: exchange.HistoryUnavailable}
		return
	}
	*r = exchange.Result{Answer: &exchange.Answer{Fills: &exchange.FillsView{
		Fills: make([]exchange.AccountFill, v.fills)}}}
}

// Commands after a query that waits for the view are executed while it waits, and answered in order.
func TestAViewHoldsBackItsReplyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, x, v := newPipes(), newFake(), newFakeView()
		s := start(t, newPipes(), x, Options{View: v, ReplyBytesMax: 100})
		go func() { _ = s.Serve(q, Adapt(lines{})) }()
		c := connect(t, q)
		line := func() string {
			reply, err := c.in.ReadString('\n')
			require.NoError(t, err)
			return strings.TrimSuffix(reply, "\n")
		}
		c.send("order 1\n")
		require.Equal(t, "ok", line())
		c.send("fills 1\n")
		c.send("order 1\n")
		synctest.Wait()
		require.Equal(t, 3, x.executed(), "the frame after it is executed too")
		v.reach(2)
		require.Equal(t, "ok fill fill fill", line())
		require.Equal(t, "ok", line())
		require.Equal(t, []uint64{2}, v.asked)

		v.reach(1000)
		v.fills = 21
		c.send("fills 1\n")
		require.Equal(t, "reply_too_long", line())
		v.fails = true
		c.send("fills 1\norder 1\n")
		require.Equal(t, "view_unavailable", line())
		require.Equal(t, "ok", line(), "orders are still executed")
		requireNothingHeld(t, s)
	})
}

// If the database does not answer a query for fills, it is not queried again in the batch: each attempt may take
// seconds, and a frame may contain 100,000 such queries.
func TestADatabaseThatIsAwayIsAskedForFillsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, v := newFake(), newFakeView()
		v.old, v.seq = true, 1000
		s := start(t, newPipes(), x, Options{View: v})
		reply := answerXML(t, s, `<transactions id="1">`+strings.Repeat(`<fills after="0"/>`, 50)+`</transactions>`)
		require.Equal(t, 50, strings.Count(reply, "database"), reply)
		require.Equal(t, 1, v.tried)
	})
}

// Many queries over Answer wait for a view that lags; none is refused because of the wait.
func TestManyOverHTTPWaitForTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, v := newFake(), newFakeView()
		s := start(t, newPipes(), x, Options{View: v})
		replies := make(chan string)
		for range 3 * lateAnswersMax {
			go func() { replies <- answerXML(t, s, `<transactions id="1"><fills/></transactions>`) }()
		}
		synctest.Wait()
		v.reach(1000)
		for range 3 * lateAnswersMax {
			require.Contains(t, <-replies, "<fill ")
		}
		requireNothingHeld(t, s)
	})
}

// answerXML returns the reply to a frame that is sent through Answer.
func answerXML(t *testing.T, s *Server, frame string) (reply string) {
	require.NoError(t, s.Answer(t.Context(), xmlCodec, []byte(frame), func(xml []byte) { reply = string(xml) }))
	return reply
}

// Without a view, the answer to queries of the view is that it is unavailable, also through Answer.
func TestWithoutAViewItIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPipes()
		s := start(t, newPipes(), newFake(), Options{})
		go func() { _ = s.Serve(q, Adapt(lines{})) }()
		c := connect(t, q)
		c.send("fills 1\n")
		reply, err := c.in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "view_unavailable\n", reply)
	})
}
