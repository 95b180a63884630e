package jsonrpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// resuming returns a subscription to account 1 that continues after event 5, on a connection with no room for
// messages.
func resuming(t *testing.T) (c *conn, r *reader) {
	t.Helper()
	c = &conn{socket: untaken(t), subs: make(map[string]*reader)}
	c.socket.OnSlow(c.slow)
	k := &call{request: request{args: args{after: 5, hasAfter: true}}}
	r = c.newReader(k, &channel{name: "account.1", kind: channelKinds["account"], account: "1"})
	c.addSubs([]*reader{r})
	return c, r
}

// given returns how many messages a slot returns.
func given(r *reader) (n int) {
	for _, ok := r.give(); ok; _, ok = r.give() {
		n++
	}
	return n
}

var missedEvents = []*exchange.AccountEvent{{N: 6, Seq: 10}, {N: 7, Seq: 11}, {N: 8, Seq: 12}}

// TestMissedEventsCountAsSent: the reason of a later cut names the last missed event, so that a client that
// continues after it gets no event twice.
func TestMissedEventsCountAsSent(t *testing.T) {
	c, r := resuming(t)
	require.Equal(t, "too slow: account.1 was sent up to n 5", c.slow(), "before its turn")
	r.beginAccount(nil, missedEvents)
	require.Equal(t, "too slow: account.1 was sent up to n 8", c.slow())
	require.Equal(t, len(missedEvents), given(r))

	c, r = resuming(t)
	r.beginAccount(nil, nil)
	require.Equal(t, "too slow: account.1 was sent up to n 5", c.slow())
	require.Zero(t, given(r))

	c, r = resuming(t)
	r.beginAccount(&accounts.Snapshot{N: 20}, nil)
	require.Equal(t, "too slow: account.1 was sent up to n 20", c.slow())
	require.Equal(t, 1, given(r))
}

// TestNothingBeginsBehindACut: after its connection was cut as too slow, a subscription sends no further event,
// because the reason of the cut already names the last one.
func TestNothingBeginsBehindACut(t *testing.T) {
	c, r := resuming(t)
	require.False(t, c.socket.Push(websocket.NewFrame(make([]byte, 60_000)), nil, 0))
	r.beginAccount(nil, missedEvents)
	require.Equal(t, "too slow: account.1 was sent up to n 5", c.slow())
	require.Zero(t, given(r))
	r.beginAccount(&accounts.Snapshot{N: 20}, nil)
	require.Equal(t, "too slow: account.1 was sent up to n 5", c.slow())
	require.Zero(t, given(r))
}
