package main

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
	"outcry/internal/testing/exchangetest"
)

// tied is the number of cancel-on-disconnect orders per connection in these tests.
const tied = 10_000 / raceFactor

// manySymbols creates two accounts, and symbols of which account 2 has shares.
func manySymbols(t *testing.T, c *conn, symbols int) {
	t.Helper()
	var b strings.Builder
	for n := range symbols {
		fmt.Fprintf(&b, `<symbol sym="S%d"><account id="2">1000000</account></symbol>`, n)
	}
	reply := c.must(t, `<create><account id="1" balance="1000000"/><account id="2" balance="1"/>`+b.String()+`</create>`)
	require.NotContains(t, reply, "<error")
}

// tie places orders of account 1 over c, in frames of a hundred. They must be canceled when the connection ends.
func tie(t *testing.T, c *conn, orders, symbols int, attributes string) {
	t.Helper()
	for n := 0; n < orders; n += 100 {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `<order sym="S%d" amount="1" limit="%d"%s/>`, (n+i)%symbols, 1+i%9, attributes)
		}
		require.Equal(t, 100, strings.Count(c.must(t, transactions(b.String())), "<opened"))
	}
}

// nothingFills tries to sell each symbol, and requires that no sell executes and that account 1 has no fills.
func nothingFills(t *testing.T, c *conn, symbols int) {
	t.Helper()
	for n := range symbols {
		reply := c.must(t, fmt.Sprintf(
			`<transactions id="2"><order sym="S%d" amount="-1" limit="1" tif="IOC" report="full"/></transactions>`, n))
		require.Contains(t, reply, `<canceled shares="1"`)
	}
	require.Equal(t, `<results><fills/></results>`, c.must(t, `<transactions id="1"><fills/></transactions>`))
}

// TestOrdersEndWithTheirConnection: cancel-on-disconnect orders are canceled however their connection ends, and none
// executes afterwards.
func TestOrdersEndWithTheirConnection(t *testing.T) {
	raced(t)
	const symbols = 50
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, flags...)
	idle := func(timeout time.Duration) {
		c := *s.config
		c.IdleTimeout = timeout
		apply, err := s.reloadSessions(&c)
		require.NoError(t, err)
		apply()
	}
	manySymbols(t, dial(t, addr), symbols)
	for _, end := range []struct {
		name, attributes, session string
		do                        func(t *testing.T, c *conn)
	}{
		{"closed", ` cod="yes"`, "", func(t *testing.T, c *conn) { require.NoError(t, c.Close()) }},
		{"reset", ` cod="yes"`, "", func(t *testing.T, c *conn) {
			require.NoError(t, c.Conn.(*net.TCPConn).SetLinger(0))
			require.NoError(t, c.Close())
		}},
		// The idle timeout counts from the last order, however long the orders took.
		{"silent", ` cod="yes"`, "", func(*testing.T, *conn) { idle(time.Second) }},
		{"silent for a shorter time", "", `<session cancel="disconnect"/>`, func(t *testing.T, c *conn) {
			c.must(t, `<session cancel="disconnect" timeout="1"/>`)
		}},
	} {
		for _, over := range []int{1, symbols} {
			t.Run(fmt.Sprintf("%s, %d symbols", end.name, over), func(t *testing.T) {
				c := dial(t, addr)
				if end.session != "" {
					require.Equal(t, `<results>`+end.session+`</results>`, c.must(t, end.session))
				}
				tie(t, c, tied, over, end.attributes)
				require.Equal(t, int64(tied), s.engine.Stats().OpenOrders)
				end.do(t, c)
				require.Eventually(t, func() bool { return s.engine.Stats().OpenOrders == 0 }, patience, time.Millisecond)
				idle(s.config.IdleTimeout)
				nothingFills(t, dial(t, addr), over)
			})
		}
	}
}

// TestAConnectionEndsAmidItsCommands: complete frames sent before the connection ended are executed, and then all
// orders of the connection are canceled.
func TestAConnectionEndsAmidItsCommands(t *testing.T) {
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, flags...)
	watch := dial(t, addr)
	manySymbols(t, watch, 10)
	before := runtime.NumGoroutine()
	frame := frameOf(`<session cancel="disconnect"/>`)
	for n := range 2000 / raceFactor {
		frame += frameOf(transactions(fmt.Sprintf(`<order sym="S%d" amount="1" limit="1"/>`, n%10)))
	}
	for round := range 20 {
		c := dial(t, addr)
		_, err := c.Write([]byte(frame))
		require.NoError(t, err)
		if round%2 == 0 {
			require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
			continue
		}
		require.NoError(t, c.Conn.(*net.TCPConn).SetLinger(0))
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { // all frames are executed, and no order or goroutine is left
		return s.engine.Stats().OpenOrders == 0 && runtime.NumGoroutine() <= before+20
	}, patience, time.Millisecond)
	nothingFills(t, watch, 10)
}

func frameOf(xml string) string { return fmt.Sprintf("%d\n%s", len(xml), xml) }

// TestAStartEndsOrdersOfConnections: after a crash or a stop, the next start cancels the orders of ended connections
// before any client can see them open.
func TestAStartEndsOrdersOfConnections(t *testing.T) {
	flags, _ := dataFlags(t)
	for _, end := range []func(*program){(*program).kill, func(p *program) { p.stop(t) }} {
		p := start(t, flags...)
		c := dial(t, p.xml)
		if strings.Contains(c.must(t, transactions(`<account/>`)), "<error") {
			manySymbols(t, c, 10)
		}
		tie(t, c, tied, 10, ` cod="yes"`)
		end(p)
		p = start(t, flags...)
		c = dial(t, p.xml)
		require.Equal(t, `<results><orders/></results>`, c.must(t, transactions(`<orders/>`)))
		nothingFills(t, c, 10)
		p.stop(t)
	}
}

// TestANewLeaderEndsOrdersOfTheOldOnesConnections: a new leader cancels orders of the old leader's connections
// before it accepts clients, whether the old leader was killed or handed over. Armed dead man's switches fire at
// the new leader.
func TestANewLeaderEndsOrdersOfTheOldOnesConnections(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	for _, end := range []func(*node){(*node).crash, func(n *node) { n.stop(t) }} {
		c := dial(t, leader.xml)
		for range 10 {
			reply := c.must(t, transactions(strings.Repeat(`<order sym="SPY" amount="1" limit="2" cod="yes"/>`, 100)))
			require.Equal(t, 100, strings.Count(reply, "<opened"), reply)
		}
		require.Contains(t, c.must(t, `<transactions id="2"><order sym="SPY" amount="1" limit="1" ref="`+leader.xml+`"/>`+
			`<cancel-after seconds="1"/></transactions>`), `<cancel-after seconds="1"/>`)
		end(leader)
		next := leaderOf(t, others(nodes, leader)...)
		c = dial(t, next.xmlOf())
		require.Equal(t, `<results><orders/></results>`, c.must(t, transactions(`<orders/>`)))
		require.Eventually(t, func() bool {
			return c.must(t, `<transactions id="2"><orders/></transactions>`) == `<results><orders/></results>`
		}, patience, time.Millisecond, "a switch passes at the new leader")
		leader.launch(t)
		leader.becomes(t, remote.RoleStandby)
		leader = next
		leader.xml = leader.xmlOf()
	}
	oneDigest(t, nodes)
	for _, n := range nodes {
		n.stop(t)
	}
}

// TestAStartWithoutRoomTakesNoOrders: a start on a full disk accepts no orders until it has room to cancel the
// orders of ended connections.
func TestAStartWithoutRoomTakesNoOrders(t *testing.T) {
	t.Parallel()
	disk, database := newSmallDisk(t), exchangetest.NewTables(t)
	s := &onSmallDisk{t: t, disk: disk,
		flags: []string{"--data=" + disk.dir, "--database-url=" + database, "--segment=65536"}}
	s.start()
	s.client.must(t, opening)
	for range 12 {
		require.False(t, s.order())
	}
	for range 20 {
		s.client.must(t, transactions(strings.Repeat(`<order sym="S" amount="1" limit="0.01" cod="yes"/>`, 100)))
	}
	s.becomeFull()
	s.cancel(len(s.open)) // uses up the reserve for cancels
	s.kill()
	s.start()
	refused := s.client.must(t, transactions(anOrder))
	require.Contains(t, refused, "<error")
	require.Contains(t, s.log.String(), "no orders are accepted yet")
	require.Positive(t, s.metric("outcry_open_orders"))
	disk.free(t)
	s.until("orders are taken", func() bool {
		return strings.Contains(s.client.must(t, transactions(anOrder)), "<opened")
	})
	require.NotContains(t, s.client.must(t, transactions(`<orders/>`)), "cod=")
	s.stop(t)
	conserved(t, database)
}
