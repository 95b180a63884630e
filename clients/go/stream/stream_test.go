package stream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
)

// peer is a scripted exchange. For each request of a method it sends the method's next line: a `result` or
// `error`, with data of a channel before and after it.
type peer struct {
	*httptest.Server
	mu      sync.Mutex // guards the fields below
	scripts map[string][][]string
	asked   []string
	conns   []*websocket.Conn
	header  http.Header
}

const closes = "" // a script's first line that ends the connection

func newPeer(t *testing.T) *peer {
	p := &peer{scripts: map[string][][]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		p.mu.Lock()
		p.conns, p.header = append(p.conns, c), r.Header
		p.mu.Unlock()
		for p.talk(r.Context(), c) {
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *peer) addr() string { return strings.TrimPrefix(p.URL, "http://") }

func (p *peer) script(method string, lines ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scripts[method] = append(p.scripts[method], lines)
}

// talk answers one request, and reports whether the connection stays open.
func (p *peer) talk(ctx context.Context, c *websocket.Conn) bool {
	_, text, err := c.Read(ctx)
	if err != nil {
		return false
	}
	var m struct {
		ID     uint64
		Method string
		Params json.RawMessage
	}
	if json.Unmarshal(text, &m) != nil {
		return false
	}
	p.mu.Lock()
	lines := p.scripts[m.Method][0]
	p.scripts[m.Method] = p.scripts[m.Method][1:]
	p.asked = append(p.asked, m.Method+" "+string(m.Params))
	p.mu.Unlock()
	if lines[0] == closes {
		return false
	}
	say := func(text string) bool { return c.Write(ctx, websocket.MessageText, []byte(text)) == nil }
	for _, line := range lines {
		channel, data, _ := strings.Cut(line, " ")
		text := fmt.Sprintf(`{"jsonrpc":"2.0","method":"subscription","params":{"channel":%q,"data":%s}}`, channel, data)
		if strings.HasPrefix(line, `"`) {
			text = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, m.ID, line)
		}
		if !say(text) {
			return false
		}
	}
	return true
}

func dialPeer(t *testing.T, p *peer, o Options) (*Stream, context.Context) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	s, err := Dial(ctx, p.addr(), o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, ctx
}

func level(price, shares string) Level {
	return Level{client.MustDecimal(price), client.MustDecimal(shares)}
}

func TestTheChecksumIsThatOfTheProtocol(t *testing.T) {
	b := &Book{}
	b.Change([]Level{level("5", "1")}, []Level{level("101.5", "0.25"), level("101", "5")})
	require.EqualValues(t, 682763730, b.Checksum())
	require.Zero(t, new(Book).Checksum())
	b.Change([]Level{level("5", "0"), level("4", "1"), level("4.5", "2")}, []Level{level("7", "0")})
	require.Equal(t, []Level{level("4.5", "2"), level("4", "1")}, b.Bids)
	require.Equal(t, []Level{level("101", "5"), level("101.5", "0.25")}, b.Asks)
}

func TestABookThatDoesNotFitBeginsAnew(t *testing.T) {
	right := fmt.Sprintf(`"seq":9,"bids":[["5","2"]],"asks":[],"checksum":%d}`, checksumOf("5", "2"))
	for name, wrong := range map[string][]string{
		"checksum": {`book.S {"type":"snapshot","seq":3,"bids":[["5","1"]],"asks":[],"checksum":1}`},
		"prev is 8": {`book.S {"type":"snapshot","seq":3,"bids":[],"asks":[],"checksum":0}`,
			`book.S {"type":"delta","prev":8,` + right},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.script("subscribe", append([]string{`"result":{}`}, wrong...)...)
			p.script("subscribe", `"result":{}`, `book.S {"type":"snapshot",`+right)
			s, ctx := dialPeer(t, p, Options{})
			require.NoError(t, s.Subscribe(ctx, "book.S"))
			u, err := s.Next(ctx)
			for err == nil && u.Seq != 9 {
				u, err = s.Next(ctx)
			}
			require.NoError(t, err)
			require.Equal(t, []Level{level("5", "2")}, u.Book.Bids)
			require.True(t, s.Book("book.S").InStep)
			require.Equal(t, 1, s.Stats().Restarts)
			require.Contains(t, s.Stats().Why, name[:4])
		})
	}
}

// checksumOf returns the checksum of a book with one bid.
func checksumOf(price, shares string) uint32 {
	return (&Book{Bids: []Level{level(price, shares)}}).Checksum()
}

func TestAMessageInPartsCountsWhenItIsWhole(t *testing.T) {
	p := newPeer(t)
	sum := (&Book{Bids: []Level{level("5", "1"), level("4", "1")}}).Checksum()
	p.script("subscribe", `"result":{}`,
		`book.S {"type":"snapshot","seq":3,"bids":[["5","1"]],"asks":[],"checksum":1,"more":true}`,
		fmt.Sprintf(`book.S {"type":"snapshot","seq":3,"bids":[["4","1"]],"asks":[],"checksum":%d}`, sum),
		fmt.Sprintf(`book.S {"type":"delta","prev":3,"seq":4,"bids":[["5","2"]],"asks":[],"checksum":%d,"more":true}`, sum),
		fmt.Sprintf(`book.S {"type":"delta","prev":3,"seq":4,"bids":[["4","0"]],"asks":[],"checksum":%d}`,
			checksumOf("5", "2")))
	s, ctx := dialPeer(t, p, Options{})
	require.NoError(t, s.Subscribe(ctx, "book.S"))
	var seqs []uint64
	for range 2 {
		u, err := s.Next(ctx)
		require.NoError(t, err)
		seqs = append(seqs, u.Seq)
	}
	require.Equal(t, []uint64{3, 4}, seqs)
	require.Equal(t, []Level{level("5", "2")}, s.Book("book.S").Bids)
	require.Zero(t, s.Stats())
}

// event returns a private event with at most one fill.
func event(n, fill int) string {
	fills := ""
	if fill > 0 {
		fills = fmt.Sprintf(`{"fill":%d,"order":1,"trade":1,"sym":"S","side":"buy","shares":"1","price":"1",`+
			`"time_ns":"1"}`, fill)
	}
	return fmt.Sprintf(`account.1 {"type":"event","n":%d,"seq":%d,"balance":"1","held":"0","positions":[],"orders":[],`+
		`"fills":[%s]}`, n, 100+n, fills)
}

func TestEventsGoOnAfterTheLastOne(t *testing.T) {
	p := newPeer(t)
	p.script("subscribe", `"result":{}`,
		`account.1 {"type":"snapshot","n":4,"last_fill":1,"seq":9,"balance":"1","held":"0"}`, event(5, 2), event(7, 4))
	p.script("subscribe", `"result":{}`, event(6, 3), event(7, 4))
	p.script("ping", closes)
	p.script("subscribe", `"result":{}`, event(7, 4), event(8, 0))
	s, ctx := dialPeer(t, p, Options{PauseMin: time.Millisecond})
	require.NoError(t, s.Subscribe(ctx, "account.1"))
	var got [][2]uint64
	for len(got) < 5 {
		u, err := s.Next(ctx)
		require.NoError(t, err)
		if got = append(got, [2]uint64{u.Account.N, u.Account.LastFill}); u.Account.N == 7 {
			require.ErrorIs(t, s.Call(ctx, "ping", nil, nil), ErrLost)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, [][2]uint64{{4, 1}, {5, 2}, {6, 3}, {7, 4}, {8, 4}}, got)
	require.Equal(t, []string{`subscribe {"channels":["account.1"]}`,
		`subscribe {"after":5,"channels":["account.1"]}`, "ping ",
		`subscribe {"after":7,"channels":["account.1"]}`}, p.asked)
	require.Equal(t, Stats{Lost: 1, Restarts: 1, Why: "account.1: event 7 follows event 5"}, s.Stats())
}

// TestTheRestOfASnapshotIsNoSnapshot: a client subscribes again while a snapshot arrives in parts. The
// remaining parts arrive before the result, and are not a complete snapshot.
func TestTheRestOfASnapshotIsNoSnapshot(t *testing.T) {
	sum := (&Book{Bids: []Level{level("5", "1"), level("4", "1")}}).Checksum()
	for name, parts := range map[string][]string{
		"account.1": {
			`account.1 {"type":"snapshot","n":4,"last_fill":1,"seq":9,"balance":"1","held":"0","orders":[{"id":1}],"more":true}`,
			`account.1 {"type":"snapshot","n":4,"last_fill":1,"seq":9,"balance":"1","held":"0","orders":[{"id":2}]}`,
		},
		"book.S": {
			fmt.Sprintf(`book.S {"type":"snapshot","seq":3,"bids":[["5","1"]],"asks":[],"checksum":%d,"more":true}`, sum),
			fmt.Sprintf(`book.S {"type":"snapshot","seq":3,"bids":[["4","1"]],"asks":[],"checksum":%d}`, sum),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.script("subscribe", `"result":{}`, parts[0])
			p.script("ping", `"result":{}`)
			p.script("subscribe", parts[1], `"result":{}`, parts[0], parts[1])
			s, ctx := dialPeer(t, p, Options{})
			require.NoError(t, s.Subscribe(ctx, name))
			require.NoError(t, s.Call(ctx, "ping", nil, nil), "what came before its result is here")
			require.NoError(t, s.Subscribe(ctx, name))
			u, err := s.Next(ctx)
			require.NoError(t, err)
			if u.Account != nil {
				require.Equal(t, []Order{{ID: 1}, {ID: 2}}, u.Account.Orders)
			} else {
				require.Equal(t, []Level{level("5", "1"), level("4", "1")}, u.Book.Bids)
			}
			require.Zero(t, s.Stats())
		})
	}
}

// TestWhatComesBeforeAChannelBeginsAnewIsOfTheOldChain: data that arrives before the channel restarts is dropped,
// even the first part of a message whose other parts never arrive.
func TestWhatComesBeforeAChannelBeginsAnewIsOfTheOldChain(t *testing.T) {
	p := newPeer(t)
	p.script("subscribe", `"result":{}`, event(7, 4))
	p.script("subscribe", event(8, 5),
		`account.1 {"type":"event","n":9,"seq":109,"balance":"1","held":"0","orders":[{"id":1}],"more":true}`,
		`"result":{}`, event(6, 3), event(7, 4))
	s, ctx := dialPeer(t, p, Options{})
	require.NoError(t, s.SubscribeAfter(ctx, "1", 5, 2))
	for n := uint64(6); n < 8; n++ {
		u, err := s.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, n, u.Account.N)
		require.Empty(t, u.Account.Orders)
	}
	require.Equal(t, 1, s.Stats().Restarts)
}

func TestAFillThatIsDoubledIsNotTaken(t *testing.T) {
	p := newPeer(t)
	p.script("subscribe", `"result":{}`, event(6, 3), event(7, 3))
	s, ctx := dialPeer(t, p, Options{})
	require.NoError(t, s.SubscribeAfter(ctx, "1", 5, 2))
	_, err := s.Next(ctx)
	require.NoError(t, err)
	_, err = s.Next(ctx)
	require.ErrorIs(t, err, ErrProtocol)
	require.ErrorContains(t, err, "fill 3 follows fill 3")
}

func TestTradesOfAConnectionHaveNoGap(t *testing.T) {
	trades := func(ids ...int) string {
		var all []string
		for _, id := range ids {
			all = append(all, fmt.Sprintf(`{"id":%d,"price":"1","shares":"1","side":"buy","buy":1,"sell":2,`+
				`"time_ns":"1"}`, id))
		}
		return fmt.Sprintf(`trades.S {"type":"delta","seq":5,"trades":[%s]}`, strings.Join(all, ","))
	}
	p := newPeer(t)
	p.script("subscribe", `"result":{}`, `trades.S {"type":"snapshot","seq":1,"last_trade":3}`, trades(4, 5), trades(7))
	p.script("subscribe", `"result":{}`, `trades.S {"type":"snapshot","seq":1,"last_trade":7}`, trades(8))
	s, ctx := dialPeer(t, p, Options{})
	require.NoError(t, s.Subscribe(ctx, "trades.S"))
	var got []uint64
	for len(got) < 5 {
		u, err := s.Next(ctx)
		require.NoError(t, err)
		if u.Snapshot {
			got = append(got, u.LastTrade)
		}
		for _, x := range u.Trades {
			got = append(got, x.ID)
		}
	}
	require.Equal(t, []uint64{3, 4, 5, 7, 8}, got)
}

func TestARefusalNamesItsReason(t *testing.T) {
	p := newPeer(t)
	p.script("subscribe", `"error":{"code":-32602,"message":"there is no channel x","data":{"reason":"unknown_channel"}}`)
	s, ctx := dialPeer(t, p, Options{})
	err := s.Subscribe(ctx, "x")
	require.Equal(t, &Refused{-32602, "unknown_channel", "there is no channel x"}, err)
	s.Close()
	_, err = s.Next(ctx)
	require.ErrorIs(t, err, ErrClosed)
}

func TestAStandbyIsLeftForTheNextNode(t *testing.T) {
	standby, leader := newPeer(t), newPeer(t)
	standby.script("subscribe", `"result":{}`)
	standby.script("ping", closes)
	refusal := `"error":{"code":1002,"message":"this node is a standby","data":{"reason":"not_ready"}}`
	leader.script("subscribe", refusal)
	standby.script("subscribe", `"result":{}`, event(6, 3))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Dial(ctx, standby.addr()+","+leader.addr(), Options{PauseMin: time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SubscribeAfter(ctx, "1", 5, 2))
	require.ErrorIs(t, s.Call(ctx, "ping", nil, nil), ErrLost)
	s.rotate() // to the node that refuses
	u, err := s.Next(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 6, u.Account.N)
	leader.mu.Lock()
	defer leader.mu.Unlock()
	require.Equal(t, []string{`subscribe {"after":5,"channels":["account.1"]}`}, leader.asked)
}

func TestAConnectionThatIsSilentIsLost(t *testing.T) {
	p := newPeer(t)
	p.script("subscribe", `"result":{}`)
	for range 100 { // a slow machine may need several tries
		p.script("subscribe", `"result":{}`, `ticker.S {"type":"snapshot","seq":1}`)
	}
	s, ctx := dialPeer(t, p, Options{Silence: time.Second, PauseMin: time.Millisecond})
	require.NoError(t, s.Subscribe(ctx, "ticker.S"))
	u, err := s.Next(ctx)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"snapshot","seq":1}`, string(u.Data))
	require.Positive(t, s.Stats().Lost)
}

func TestATokenStaysOnThisMachineWithoutTLS(t *testing.T) {
	p := newPeer(t)
	p.script("ping", `"result":{}`)
	s, ctx := dialPeer(t, p, Options{Token: "secret"})
	require.NoError(t, s.Call(ctx, "ping", nil, nil))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, "Bearer secret", p.header.Get("Authorization"))
	elsewhere := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	require.False(t, s.options.permits(elsewhere))
	for _, o := range []Options{{}, {Token: "t", TLS: new(tls.Config)}, {Token: "t", InsecureToken: true}} {
		require.True(t, o.permits(elsewhere))
	}
}
