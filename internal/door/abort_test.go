package door

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After Abort, a client gets no reply, not even one that becomes durable later, and no reason why its connection is
// closed.
func TestAbortTellsNothing(t *testing.T) {
	l, x := listen(t), newFake()
	s := New(x, Options{BatchFramesMax: 1})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, xmlCodec) }()
	c, idle := dial(t, l), dial(t, l)
	c.send(query(1))
	require.Equal(t, answer(1), c.reply())
	x.set(func() { x.held = true })
	c.send(query(2), query(3))
	answered := make(chan error, 1)
	go func() {
		answered <- s.Answer(t.Context(), xmlCodec, []byte(`<transactions id="1"><query id="4"/></transactions>`),
			func([]byte) { t.Error("a reply was sent after Abort") })
	}()
	eventually(t, func() bool { return x.executed() == 4 })

	s.Abort()
	x.set(func() { x.held = false })
	require.ErrorIs(t, <-answered, ErrAborted)
	for _, conn := range []*client{c, idle} {
		rest, _ := io.ReadAll(conn.in) // a reset is fine too
		require.Empty(t, string(rest))
	}
	require.NoError(t, <-served)
	_, err := l.Accept()
	require.Error(t, err, "the listener is closed")
	_, err = ask(s, t.Context(), []byte(`<transactions id="1"><query id="5"/></transactions>`))
	require.ErrorIs(t, err, ErrAborted)
	require.Equal(t, 4, x.executed())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	requireNothingHeld(t, s)
}
