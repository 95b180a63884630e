package door

import (
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
)

// placing returns a frame with one order for each argument, which holds additional attributes.
func placing(attributes ...string) string {
	var orders strings.Builder
	for _, a := range attributes {
		orders.WriteString(`<order sym="A" amount="1" limit="1" ` + a + `/>`)
	}
	return frame(`<transactions id="1">` + orders.String() + `</transactions>`)
}

// sessionOf returns a frame <session> with additional attributes.
func sessionOf(attributes string) string {
	return frame(`<session cancel="disconnect"` + attributes + `/>`)
}

// originsOf returns the origins of all executed commands. made returns the origins that were created, and endedOf
// those that have ended.
func (x *fake) originsOf() (all []*engine.Origin) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.commands {
		all = append(all, x.commands[i].Origin)
	}
	return all
}

func TestOrdersThatEndWithTheirConnectionNameIt(t *testing.T) {
	l, x := listen(t), newFake()
	start(t, l, x, Options{})
	a, b := dial(t, l), dial(t, l)
	a.send(placing(``, `cod="no"`, `cod="yes"`, `cod="yes"`))
	a.reply()
	b.send(placing(``), sessionOf(""), placing(``, `cod="no"`), placing(`cod="yes"`))
	for range 4 {
		require.NotContains(t, b.reply(), "<error")
	}
	all := x.originsOf()
	require.Len(t, x.made(), 2, "made when they are needed, one a connection")
	first, second := x.made()[0], x.made()[1]
	require.Equal(t, []*engine.Origin{nil, nil, first, first, nil, second, nil, second}, all)
	require.NotSame(t, first, second)
	require.Empty(t, x.endedOf())
	b.Close()
	eventually(t, func() bool { return slices.Equal(x.endedOf(), []*engine.Origin{second}) })
	c := dial(t, l) // the batch of b's frames is reused for this client's frames
	c.send(placing(``))
	c.reply()
	require.Nil(t, x.originsOf()[8])
}

func (x *fake) made() []*engine.Origin {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.origins)
}

func (x *fake) endedOf() []*engine.Origin {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.ended)
}

// However a connection ends, its origin is ended exactly once, after its last command.
func TestAConnectionEndsForItsOrdersHoweverItEnds(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"closed":      func(c *client) { c.Close() },
		"half closed": func(c *client) { require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite()) },
		"reset": func(c *client) {
			require.NoError(t, c.Conn.(*net.TCPConn).SetLinger(0))
			c.Close()
		},
		"no frame":     func(c *client) { c.send("GET / HTTP/1.1\n") },
		"cut off":      func(c *client) { c.send("1000\n<trans"); c.Close() },
		"a last order": func(c *client) { c.send(placing(`cod="yes"`)); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			l, x := listen(t), newFake()
			start(t, l, x, Options{})
			c := dial(t, l)
			c.send(placing(`cod="yes"`))
			c.reply()
			var late atomic.Int64 // counts commands that were executed after the end
			x.set(func() {
				x.entered = func() { late.Add(int64(len(x.endedOf()))) }
			})
			end(c)
			eventually(t, func() bool { return len(x.endedOf()) > 0 })
			require.Equal(t, x.made(), x.endedOf())
			require.Zero(t, late.Load())
		})
	}
}

func TestAStopEndsConnectionsForTheirOrders(t *testing.T) {
	l, x := listen(t), newFake()
	s := start(t, l, x, Options{})
	c := dial(t, l)
	c.send(placing(`cod="yes"`))
	c.reply()
	require.NoError(t, s.Shutdown(t.Context()))
	require.Equal(t, x.made(), x.endedOf())
}

// If a client sets a shorter silence, a frame that stops arriving also ends the connection after that silence.
func TestAClientMayShortenItsSilence(t *testing.T) {
	for sent, why := range map[string]string{"": "nothing was sent for 5s",
		"1000\n<trans": "a frame did not arrive within 5s"} {
		synctest.Test(t, func(t *testing.T) {
			p, x := newPipes(), newFake()
			start(t, p, x, Options{})
			c := connect(t, p)
			c.send(sessionOf(` timeout="5"`), placing(""))
			c.reply()
			time.Sleep(4 * time.Second)
			c.send(placing(""))
			c.reply()
			time.Sleep(4 * time.Second)
			c.send(frame(`<transactions id="1"/>`)) // the shortest frame that counts as activity
			require.Equal(t, "<results><opened sym=\"A\" amount=\"1\" limit=\"1\" id=\"0\"/></results>", c.reply())
			require.Equal(t, "<results/>", c.reply())
			begun := time.Now()
			c.send(sent)
			require.Equal(t, errorReply(why), c.reply())
			require.Equal(t, 5*time.Second, time.Since(begun))
			synctest.Wait()
			require.Equal(t, x.made(), x.endedOf())
			require.Len(t, x.endedOf(), 1)
		})
	}
}

// Neither a longer silence from the client nor new limits extend the idle time.
func TestASilenceIsNeverLengthened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{IdleTimeout: time.Minute})
		c, d := connect(t, p), connect(t, p)
		c.send(sessionOf(` timeout="3600"`))
		d.send(sessionOf(` timeout="5"`))
		c.reply()
		d.reply()
		begun := time.Now()
		s.SetLimits(Limits{ConnectionsMax: 9, IdleTimeout: time.Minute, FrameTimeout: time.Hour, WriteTimeout: time.Hour})
		require.Equal(t, errorReply("nothing was sent for 5s"), d.reply())
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.Equal(t, errorReply("nothing was sent for 1m0s"), c.reply())
		require.Equal(t, time.Minute, time.Since(begun))
	})
}

func TestOverHTTPThereIsNoConnection(t *testing.T) {
	x := newFake()
	s := New(x, Options{})
	overHTTP := func(sent string) (reply string) {
		err := s.Answer(t.Context(), Adapt(wire.XML{HTTP: true}), framedXML(sent), func(xml []byte) { reply = string(xml) })
		require.NoError(t, err)
		return reply
	}
	require.Equal(t, `<results><error sym="A" amount="1" limit="1" cod="yes">cod concerns a connection, and `+
		`requests over HTTP have none</error><opened sym="A" amount="1" limit="1" cod="no" id="0"/></results>`,
		overHTTP(placing(`cod="yes"`, `cod="no"`)))
	require.Equal(t, errorReply("<session> concerns a connection, and requests over HTTP have none"),
		overHTTP(sessionOf("")))
	require.Contains(t, overHTTP(placing("")), "<opened ")
	require.Equal(t, []*engine.Origin{nil, nil}, x.originsOf())
	require.Empty(t, x.made())
}

// Executions that do not fit into the reply are left out, but the report is sent, because the command was executed.
func TestReportsKeepWithinTheReply(t *testing.T) {
	l, x := listen(t), newFake()
	x.executions = 100
	s := start(t, l, x, Options{ReplyBytesMax: 20_000})
	c := dial(t, l)
	c.send(placing(slices.Repeat([]string{`report="full"`}, 10)...))
	reply := c.reply()
	require.Less(t, len(reply), 20_000)
	require.Equal(t, 10, strings.Count(reply, "<opened "))
	require.Equal(t, 10, strings.Count(reply, "</opened>"))
	whole := strings.Count(reply, "<executed ") / 100
	require.Positive(t, whole)
	require.Equal(t, 10-whole, strings.Count(reply, `report="full" id="0"><more/></opened>`))
	require.Equal(t, 1.0, s.hits(limitReply))

	x.set(func() { x.executions = 1001 })
	c.send(placing(`report="full"`))
	require.Contains(t, c.reply(), `id="0"><more/></opened>`)
}

// If there is no memory, a report is sent without its executions.
func TestReportsTakeMemory(t *testing.T) {
	l, x := listen(t), newFake()
	x.executions = 1000
	s := start(t, l, x, Options{MemoryMax: 8 << 20})
	c := dial(t, l)
	c.send(placing(slices.Repeat([]string{`report="full"`}, 60)...))
	require.Equal(t, 60, strings.Count(c.reply(), "</opened>"))
	requireNothingHeld(t, s)
	require.True(t, s.working.free.TryAcquire(s.working.max))
	c.send(placing(slices.Repeat([]string{`report="full"`}, 3)...))
	reply := c.reply()
	s.working.free.Release(s.working.max)
	require.Equal(t, 3, strings.Count(reply, "</opened>"))
	require.Contains(t, reply, "<more/></opened></results>")
}
