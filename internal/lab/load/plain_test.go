package load_test

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/faulty"
	. "outcry/internal/lab/load"
)

// student starts a server of the protocol, which ends with the test.
func student(t *testing.T, o faulty.Options) (addr string) {
	t.Helper()
	addr, stop, err := faulty.Start(o)
	require.NoError(t, err)
	t.Cleanup(stop)
	return addr
}

// plain returns a load with the given number of orders.
func plain(addr string, h dialect.Habits, orders uint64) *Plain {
	return &Plain{Symbols: 2, Orders: orders, First: 1000, Tag: "B",
		Options: Options{Addrs: []string{addr}, Connections: 3, Depth: 2, Duration: time.Minute, Habits: h}}
}

// TestOrdersAreSentInTheHabitsOfAServer tests against servers that each accept only their own form of
// frames.
func TestOrdersAreSentInTheHabitsOfAServer(t *testing.T) {
	for _, h := range []dialect.Habits{{}, {AccountAttribute: true}, {CRLF: true}, {Bare: true}, {WrongLength: true},
		{OneFrame: true}, {ResultRoot: true}, {Whole: true},
		{AccountAttribute: true, CRLF: true, Bare: true, OneFrame: true, ResultRoot: true, Whole: true}} {
		t.Run(fmt.Sprintf("%+v", h), func(t *testing.T) {
			p := plain(student(t, faulty.Options{Habits: h}), h, 200)
			require.NoError(t, p.Prepare(background))
			r, err := p.Run(background)
			require.NoError(t, err)
			require.EqualValues(t, 200, r.Requests)
			require.Zero(t, r.Errors, r.Examples)
			c, err := p.Check(background)
			require.NoError(t, err)
			require.Equal(t, Checked{Opened: 200, Asked: 200}, *c)
		})
	}
}

// TestRunsGoOnWithTheSameAccounts checks that Check queries the orders of both runs of one Plain.
func TestRunsGoOnWithTheSameAccounts(t *testing.T) {
	p := plain(student(t, faulty.Options{}), dialect.Habits{}, 100)
	p.Duration = 0
	require.NoError(t, p.Prepare(background))
	_, err := p.Run(background)
	require.NoError(t, err)
	p.Orders = 201 // for both runs together; at the end of the first, each connection counted one order it did not send
	r, err := p.Run(background)
	require.NoError(t, err)
	require.NotZero(t, r.Requests)
	c, err := p.Check(background)
	require.NoError(t, err)
	require.Equal(t, 100+r.Requests, c.Asked)
	require.True(t, c.OK(), c.Example)
}

// TestAConnectionTradesOneSymbolOrAll checks how many symbols the orders of a connection name.
func TestAConnectionTradesOneSymbolOrAll(t *testing.T) {
	order := regexp.MustCompile(`^<transactions id="\d+"><order sym="(\w+)"`)
	for _, one := range []bool{true, false} {
		var traded sync.Map // by symbol
		var n atomic.Int64
		addr := serve(t, func(_, _ int, xml []byte) []byte {
			m := order.FindSubmatch(xml)
			if m == nil {
				return []byte("<results>" + strings.Repeat("<created/>", 4) + "</results>")
			}
			traded.Store(string(m[1]), true)
			return []byte("<results>" + opened(n.Add(1)) + "</results>")
		})
		p := plain(addr, dialect.Habits{}, 60)
		p.Connections, p.OneSymbol = 1, one
		require.NoError(t, p.Prepare(background))
		_, err := p.Run(background)
		require.NoError(t, err)
		symbols := 0
		traded.Range(func(any, any) bool { symbols++; return true })
		want := p.Symbols
		if one {
			want = 1
		}
		require.Equal(t, want, symbols)
	}
}

// TestAConnectionThatBreaksTakesNoOrderAlong checks that after a broken run, each order of the next run is still
// queried by the account that placed it.
func TestAConnectionThatBreaksTakesNoOrderAlong(t *testing.T) {
	order := regexp.MustCompile(`^<transactions id="(\d+)"><order`)
	query := regexp.MustCompile(`<query id="(\d+)"/>`)
	var owners sync.Map // account by order id
	var n atomic.Int64
	addr := serve(t, func(connection, frame int, xml []byte) []byte {
		m := order.FindSubmatch(xml)
		switch {
		case bytes.HasPrefix(xml, []byte("<create>")):
			return []byte("<results>" + strings.Repeat("<created/>", 4) + "</results>")
		case m != nil && connection == 2 && frame == 4:
			return nil // close the connection
		case m != nil:
			owners.Store(fmt.Sprint(n.Add(1)), string(m[1]))
			return []byte("<results>" + opened(n.Load()) + "</results>")
		}
		var all strings.Builder
		for _, m := range query.FindAllSubmatch(xml, -1) {
			if owner, _ := owners.Load(string(m[1])); !bytes.Contains(xml, fmt.Appendf(nil, `id="%s">`, owner)) {
				all.WriteString("<error>this is not your order</error>")
				continue
			}
			all.WriteString(executed(string(m[1])))
		}
		return []byte("<results>" + all.String() + "</results>")
	})
	p := plain(addr, dialect.Habits{}, 20)
	p.Connections, p.Depth = 1, 1
	require.NoError(t, p.Prepare(background))
	_, err := p.Run(background)
	require.ErrorContains(t, err, "load: connection 1: EOF")
	_, err = p.Run(background)
	require.NoError(t, err)
	c, err := p.Check(background)
	require.NoError(t, err)
	require.Equal(t, Checked{Opened: 19, Asked: 19}, *c)
}

// TestWhatAServerForgetsIsFound checks that Check finds duplicate ids, lost orders and missing shares.
func TestWhatAServerForgetsIsFound(t *testing.T) {
	order := regexp.MustCompile(`<order [^>]*>`)
	query := regexp.MustCompile(`<query id="(\d+)"/>`)
	for _, c := range []struct {
		name        string
		opened      func(n int64) string // returns the reply to an order
		status      func(id string) string
		refused     uint64
		want        Checked
		wantExample string
	}{
		{"right", opened, executed, 0, Checked{Opened: 60, Asked: 60}, ""},
		{"a number twice", func(n int64) string { return opened(max(n, 11)) }, executed, 0,
			Checked{Opened: 60, Asked: 60, Doubled: 10}, "two orders were given the number 11"},
		{"lost", opened, func(id string) string {
			if id == "7" {
				return `<error id="7">no such order</error>`
			}
			return executed(id)
		}, 0, Checked{Opened: 60, Asked: 60, Lost: 1}, "order 7 was opened, but is now answered with: \"no such order\""},
		{"half of it", opened, func(id string) string {
			if id == "9" {
				return `<status id="9"><open shares="0.5"/></status>`
			}
			return executed(id)
		}, 0, Checked{Opened: 60, Asked: 60, Wrong: 1}, "order 9 of 1 share has 0.5, open and executed"},
		{"refused", func(n int64) string {
			if n == 5 {
				return `<error sym="B0">no funds</error>`
			}
			return opened(n)
		}, executed, 1, Checked{Opened: 59, Asked: 59}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int64
			addr := serve(t, func(_, _ int, xml []byte) []byte {
				switch {
				case bytes.HasPrefix(xml, []byte("<create>")):
					return []byte("<results>" + strings.Repeat("<created/>", 4) + "</results>")
				case order.Match(xml):
					return []byte("<results>" + c.opened(n.Add(1)) + "</results>")
				}
				var all strings.Builder
				for _, m := range query.FindAllSubmatch(xml, -1) {
					all.WriteString(c.status(string(m[1])))
				}
				return []byte("<results>" + all.String() + "</results>")
			})
			p := plain(addr, dialect.Habits{}, 60)
			require.NoError(t, p.Prepare(background))
			r, err := p.Run(background)
			require.NoError(t, err)
			require.Equal(t, c.refused, r.Errors)
			got, err := p.Check(background)
			require.NoError(t, err)
			c.want.Example = c.wantExample
			require.Equal(t, c.want, *got)
		})
	}
}

// opened returns a reply that is written differently from ours: other quotes, another order of attributes.
func opened(n int64) string { return fmt.Sprintf("<opened sym='B0'\n id='%d' limit='1' />", n) }

func executed(id string) string {
	return `<status id="` + id + `"><executed shares="1" price="1" time="1519348326"/></status>`
}

// TestAServerThatCreatesNothingIsNamed checks that Prepare fails if the server rejects or leaves out a part of its
// frame.
func TestAServerThatCreatesNothingIsNamed(t *testing.T) {
	addr := serve(t, func(_, _ int, xml []byte) []byte {
		return []byte("<results><created/><error>no room</error><created/><created/></results>")
	})
	err := plain(addr, dialect.Habits{}, 1).Prepare(background)
	require.ErrorContains(t, err, "an account or symbol is not created")
	addr = serve(t, func(_, _ int, xml []byte) []byte { return []byte("<results><created/></results>") })
	require.ErrorContains(t, plain(addr, dialect.Habits{}, 1).Prepare(background),
		"the reply to a frame of 4 elements has 1")
}

// TestRefsAreFoundOut checks that HasRefs reports false for a server that opens an account twice, or rejects the
// attribute ref.
func TestRefsAreFoundOut(t *testing.T) {
	for reply, want := range map[string]bool{
		`<created id="900" ref="bench"/><created id="900" ref="bench"/>`:   true,
		`<created id="900"/><error id="900">account exists</error>`:        false,
		`<error>unknown attribute</error><error>unknown attribute</error>`: false,
	} {
		addr := serve(t, func(_, _ int, xml []byte) []byte { return []byte("<results>" + reply + "</results>") })
		got, err := HasRefs(background, Options{Addrs: []string{addr}}, "900")
		require.NoError(t, err)
		require.Equal(t, want, got, reply)
	}
}

// TestNoRateIsKeptWithoutAConnection checks that a rate is refused for a server that closes after each
// reply.
func TestNoRateIsKeptWithoutAConnection(t *testing.T) {
	h := dialect.Habits{OneFrame: true}
	p := plain(student(t, faulty.Options{Habits: h}), h, 10)
	p.Rate = 100
	require.NoError(t, p.Prepare(background))
	_, err := p.Run(background)
	require.ErrorContains(t, err, "cannot be measured at a rate")
}

// TestARateIsKeptWithoutRefs checks that exactly the orders that are due are sent.
func TestARateIsKeptWithoutRefs(t *testing.T) {
	p := plain(student(t, faulty.Options{}), dialect.Habits{}, 1000)
	p.Rate, p.Duration = 100, 500*time.Millisecond
	require.NoError(t, p.Prepare(background))
	r, err := p.Run(background)
	require.NoError(t, err)
	require.EqualValues(t, 50, r.Requests)
}

// TestAnOrderCostsNoMemory checks that an order allocates nothing except space for its id, so that the client does
// not distort measurements of the server.
func TestAnOrderCostsNoMemory(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() { _ = Echo(l, 80, nil) }()
	p := plain("", dialect.Habits{}, 0)
	p.Duration = 2 * time.Second // enough for 1000 orders even on a slow machine
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := p.Blank(background, l.Addr().String())
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Greater(t, r.Requests, uint64(1000))
	require.Less(t, float64(after.Mallocs-before.Mallocs)/float64(r.Requests), 0.5)
}
