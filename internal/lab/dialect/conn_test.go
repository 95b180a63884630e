package dialect

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const create = `<create><account id="1" balance="1"/></create>`

// kind requires that err is a *Broken of kind k, and returns it.
func kind(t *testing.T, err error, k Kind) *Broken {
	t.Helper()
	var b *Broken
	require.ErrorAs(t, err, &b)
	require.Equal(t, k, b.Kind, "%v", err)
	return b
}

func TestWithOneFrameAConnectionEachFrameHasItsOwn(t *testing.T) {
	s := habitServer{habits: Habits{OneFrame: true}}
	addr := s.serve(t)
	c := dial(t, addr, Options{Habits: s.habits})
	for range 3 {
		_, err := c.Do(t.Context(), create)
		require.NoError(t, err)
	}
	require.NoError(t, c.SendRaw(t.Context(), Frame(create, false)[:7]))
	require.NoError(t, c.SendRaw(t.Context(), Frame(create, false)[7:]))
	_, err := c.Receive(t.Context())
	require.NoError(t, err)
	_, err = c.Receive(t.Context())
	kind(t, err, Closed)
	require.Equal(t, 4, s.asked())
}

// A serial server must not be blocked by a connection that is not used yet.
func TestWithOneFrameAConnectionIsMadeWhenThereIsAFrame(t *testing.T) {
	opened := 0
	dialer := Connector{Options: Options{Habits: Habits{OneFrame: true}}}
	dialer.Open = func(context.Context) (net.Conn, error) {
		opened++
		return nil, io.ErrUnexpectedEOF
	}
	c, err := dialer.Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	require.Zero(t, opened)
	kind(t, c.Send(t.Context(), create), Refused)
	require.Equal(t, 1, opened)
}

func TestAStrictConnectionIsOneWhateverTheHabits(t *testing.T) {
	s := habitServer{habits: Habits{OneFrame: true}}
	c := dial(t, s.serve(t), Options{Habits: s.habits})
	c.Strict()
	_, err := c.Do(t.Context(), create)
	require.NoError(t, err)
	_, err = c.Do(t.Context(), create)
	kind(t, err, Closed)
	require.Equal(t, 1, s.asked())
}

func TestFramesThatWaitForAConnectionAreBounded(t *testing.T) {
	c := Conn{connector: &Connector{}, alone: true, sent: []string{create}}
	for range heldMax {
		require.NoError(t, c.Send(t.Context(), create))
	}
	require.ErrorContains(t, c.Send(t.Context(), create), "more than 1000 frames wait")
}

// The server does not read while its reply is not read. If the kit did not read ahead, both would wait for
// each other.
func TestRepliesAreReadWhileFramesAreSent(t *testing.T) {
	server, client := net.Pipe()
	c, err := (&Connector{Open: func(context.Context) (net.Conn, error) { return client, nil }}).Dial(t.Context())
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := bufio.NewReaderSize(server, 16)
		for {
			if _, err := in.ReadString('>'); err != nil {
				return
			}
			fmt.Fprintf(server, "29\n%s", ok)
		}
	}()
	for range 100 {
		require.NoError(t, c.Send(t.Context(), "<create/>"))
	}
	for range 100 {
		_, err := c.Receive(t.Context())
		require.NoError(t, err)
	}
	c.Close()
	<-done
}

func TestWaitClosed(t *testing.T) {
	last := "29\n" + ok
	for name, c := range map[string]struct {
		handle func(net.Conn)
		last   bool // WaitClosed returns a last reply
		open   bool // WaitClosed returns an error, since the connection stays open
	}{
		"at once":                 {func(net.Conn) {}, false, false},
		"behind a reply":          {func(c net.Conn) { io.WriteString(c, last) }, true, false},
		"behind two":              {func(c net.Conn) { io.WriteString(c, last+last) }, true, false},
		"behind what is no reply": {func(c net.Conn) { io.WriteString(c, "go away, <b>you") }, false, false},
		"behind half a reply":     {func(c net.Conn) { io.WriteString(c, last[:9]) }, false, false},
		"reset":                   {resets, false, false},
		"open":                    {func(c net.Conn) { io.Copy(io.Discard, c) }, false, true},
		"open behind a reply":     {func(c net.Conn) { io.WriteString(c, last); io.Copy(io.Discard, c) }, true, true},
		"open behind no reply":    {func(c net.Conn) { io.WriteString(c, "what?\n!"); io.Copy(io.Discard, c) }, false, true},
		"replies without end": {func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, last); err != nil {
					return
				}
			}
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, listen(t, c.handle), Options{})
			if conn.time = time.Minute; c.open { // all replies arrive at once, and nothing after them
				conn.time = 2 * time.Second
			}
			if name == "reset" {
				require.NoError(t, conn.Send(t.Context(), create))
			}
			r, err := conn.WaitClosed(t.Context())
			require.Equal(t, c.last, r != nil)
			if c.open {
				require.EqualError(t, err, "the server left a connection open that it must close")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestACompleteFrameIsAnsweredBehindTheEndOfWhatIsSent(t *testing.T) {
	s := habitServer{}
	c := dial(t, s.serve(t), Options{})
	require.NoError(t, c.Send(t.Context(), create))
	require.NoError(t, c.CloseWrite(t.Context()))
	_, err := c.Receive(t.Context())
	require.NoError(t, err)
	_, err = c.WaitClosed(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Send(t.Context(), create), "that it cannot be sent is Receive's to say")
	_, err = c.Receive(t.Context())
	kind(t, err, Closed)
}

// A reply that the server sends before it closes the connection is received, even if a later frame cannot be sent.
func TestALastReplyIsReceivedThoughFramesCannotBeSent(t *testing.T) {
	closed := make(chan struct{})
	addr := listen(t, func(c net.Conn) {
		io.WriteString(c, "29\n"+ok)
		c.Close()
		close(closed)
	})
	c := dial(t, addr, Options{})
	<-closed
	for range 3 {
		require.NoError(t, c.SendRaw(t.Context(), []byte(strings.Repeat("x", 1<<16))))
	}
	_, err := c.Receive(t.Context())
	require.NoError(t, err)
	_, err = c.Receive(t.Context())
	kind(t, err, Closed)
}

func TestTheEndOfTheContextEndsWaiting(t *testing.T) {
	addr := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	c := dial(t, addr, Options{ReplyTime: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	received := make(chan error)
	go func() {
		_, err := c.Do(ctx, create)
		received <- err
	}()
	cancel()
	err := <-received
	kind(t, err, TimedOut)
	require.ErrorIs(t, err, context.Canceled)
	_, err = (&Connector{Addr: addr}).Dial(ctx)
	kind(t, err, TimedOut)
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	_, err = (&Connector{Addr: l.Addr().String()}).Dial(t.Context())
	kind(t, err, Refused)
	require.ErrorContains(t, err, "the server accepts no connection")
}

func TestOnlyTheAccountOfTransactionsIsRenamed(t *testing.T) {
	for _, c := range []struct{ doc, want string }{ // an empty want means that doc stays unchanged
		{`<transactions id="1"><query id="2"/></transactions>`, `<transactions account="1"><query id="2"/></transactions>`},
		{"<!-- id=\"1\" -->\n<transactions\n  id = '1'/>", "<!-- id=\"1\" -->\n<transactions\n  account = '1'/>"},
		{`<?xml version="1.0"?><transactions a=" id='1'" id="2"/>`,
			`<?xml version="1.0"?><transactions a=" id='1'" account="2"/>`},
		{`<transactions id="ü"><query id="2"/></transactions><x id="3"/>`,
			`<transactions account="ü"><query id="2"/></transactions><x id="3"/>`},
		{`<transactions account="1"><query id="2"/></transactions>`, ""},
		{`<transactions><query id="2"/></transactions>`, ""},
		{`<create><account id="1" balance="1"/></create>`, ""},
		{`<transactions id="1`, ""},
		{`<transactions ident="1" Id="2" grid="3"/>`, ""},
		{`transactions id="1"`, ""},
	} {
		require.Equal(t, cmp.Or(c.want, c.doc), withAccount(c.doc))
	}
}
