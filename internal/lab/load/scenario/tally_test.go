package scenario

import (
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/lab/load"
)

func TestTallyCountsEveryAnswer(t *testing.T) {
	tally := new(Tally)
	take := func(reply string, owed int, may func(string) bool) error {
		tally.owed = append(tally.owed, owed)
		return tally.addReply([]byte(reply), may)
	}
	require.NoError(t, take(`<results><opened sym="S" amount="1" limit="2" id="17"/><status id="17">`+
		`<open shares="1"/></status>`+
		`<canceled id="17"><canceled shares="1" time="5"/><executed shares="1" price="2" time="3"/></canceled>`+
		`<created id="1"/><created sym="S" id="1"/>`+
		`<opened sym="S" amount="1" limit="2" id="18"/></results>`, 6, nothingRefused))
	require.Equal(t, &Tally{Accepted: 2, Canceled: 1, Queried: 1, Created: 2, IDs: []uint64{17, 18},
		opened: []uint64{17, 18}, owed: []int{}}, tally)
	require.NoError(t, take(`<results><error id="9">order 9 has nothing open: `+
		`it is executed</error></results>`, 1, tooLate))
	require.Equal(t, map[string]uint64{"order  has nothing open: it is executed": 1}, tally.Reasons)
	require.EqualValues(t, 1, tally.Refused)
	for _, wrong := range []string{
		`<results><error>there is no symbol S</error></results>`, `<results><sold/></results>`,
		`<results><opened id="x"/></results>`,
		`<results><status id="1"></results>`, `<answers/>`, ``, `<results>`,
		`<results/>`, `<results><created id="1"/><created id="2"/></results>`,
	} {
		require.Error(t, take(wrong, 1, tooLate), wrong)
	}
}

func TestAFrameIsOwedAnAnswerForEachCommand(t *testing.T) {
	tally := new(Tally)
	tally.sends(new(wire.Create).Account(wire.Account{ID: "1", Balance: "1"}).
		Symbol("S", wire.Placement{Account: "1", Shares: "1"}, wire.Placement{Account: "2", Shares: "1"}).Append(nil))
	tally.sends(wire.NewTransactions("1").Order("S", "1", "1").Query("1").Cancel("1").Append(nil))
	require.Equal(t, []int{3, 3}, tally.owed)
}

// Sources that build frames by hand state how many commands each frame has. An exchange must count the same number.
func TestFramesThatAreWrittenOutHaveAsManyCommandsAsTheySay(t *testing.T) {
	for _, perFrame := range []int{1, 10} {
		run := &Run{Params: Params{Accounts: 4, Symbols: 50, PerFrame: perFrame}, prices: newPrices(50),
			weights: newZipf(50), resting: slices.Repeat([]uint64{7}, 1000)}
		for _, source := range []load.Source{newQueries(run, 0), newTrader(run, 1, run.weights.draw),
			newSteadyTrader(run, 2)} {
			for range 100 {
				var r wire.Request
				r.Decode(source.Next(), nil)
				require.Len(t, r.Commands, perFrame)
			}
		}
		for _, tally := range run.tallies {
			require.Equal(t, slices.Repeat([]int{perFrame}, 100), tally.owed)
		}
	}
}

// The flow must have the described shares of passive orders, cancels and crossing orders, and the weights of the
// symbols must decrease.
func TestTheMarketIsAsDescribed(t *testing.T) {
	run := &Run{Params: Params{Accounts: 4, Symbols: 50, PerFrame: 1}, prices: newPrices(50), weights: newZipf(50)}
	trader := newTrader(run, 0, run.weights.draw)
	var orders, cancels, crossing int
	symbols := map[string]int{}
	for range 20_000 {
		var r wire.Request
		xml := trader.Next()
		r.Decode(xml, nil)
		require.Len(t, r.Commands, 1, "%s", xml)
		if c := r.Commands[0]; strings.Contains(string(xml), "<cancel") {
			cancels++
			require.NoError(t, trader.Reply([]byte(`<results><canceled id="1">`+
				`<canceled shares="1" time="1"/></canceled></results>`)))
		} else {
			orders++
			symbols[string(c.Symbol)]++
			var sym int
			_, err := fmt.Sscanf(string(c.Symbol), "SYM%d", &sym)
			require.NoError(t, err)
			above := int64(c.Limit)/1_000_000 > run.prices[sym].Load()
			if above == (c.Side == exchange.Buy) {
				crossing++
			}
			require.NoError(t, trader.Reply([]byte(
				strings.ReplaceAll(`<results><opened sym="S" amount="1" limit="1" id="N"/></results>`, "N", "9"))))
		}
	}
	t.Logf("%d orders, %d of them crossing, %d cancels", orders, crossing, cancels)
	require.InDelta(t, 0.25, float64(cancels)/20_000, 0.03)
	require.InDelta(t, 0.15/0.75, float64(crossing)/float64(orders), 0.03)
	require.Greater(t, symbols["SYM0"], 5*symbols["SYM20"])
}

func TestZipfDrawsAll(t *testing.T) {
	z, r := newZipf(3), rand.New(rand.NewPCG(1, 2))
	seen := map[int]int{}
	for range 10_000 {
		seen[z.draw(r)]++
	}
	require.Len(t, seen, 3)
	require.Greater(t, seen[0], seen[1])
	require.Greater(t, seen[1], seen[2])
}

// TestMix5IsAsItWasPublished checks that each request has its own connection and that all clients share two
// accounts. In the variant with permanent connections, each client must have one connection and one account.
func TestMix5IsAsItWasPublished(t *testing.T) {
	for _, c := range []struct {
		name                  string
		connections, accounts int
	}{{"mix5", 60, 2}, {"mix5-persistent", 3, 3}} {
		s, found := Find(c.name)
		require.True(t, found)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := &recording{Listener: l}
		ended := make(chan error, 1)
		go func() { ended <- load.Echo(server, 80, nil) }()
		run := &Run{Addrs: []string{"127.0.0.1:1"}, Seed: 1, First: 100, Params: Params{Clients: 3, Depth: 1, Requests: 20},
			resting: make([]uint64, 3)}
		require.Error(t, s.prepare(t.Context(), run), "nobody opens accounts, but it says how many there are")
		run.Addrs[0] = l.Addr().String()
		result, err := s.Measure(t.Context(), run)
		require.NoError(t, err)
		require.EqualValues(t, 60, result.Requests)
		require.NoError(t, l.Close())
		require.NoError(t, <-ended)
		require.Equal(t, c.connections, server.accepted())
		accounts := map[string]bool{}
		for _, found := range regexp.MustCompile(`<transactions id="(\d+)"`).FindAllStringSubmatch(server.text(), -1) {
			accounts[found[1]] = true
		}
		require.Len(t, accounts, c.accounts)
		require.True(t, accounts["101"] && accounts["102"], "ids are above First: %v", accounts)
	}
}

// recording is a listener that counts connections and records the bytes they read.
type recording struct {
	net.Listener
	mu    sync.Mutex // guards the fields below
	conns int
	read  strings.Builder
}

func (r *recording) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns++
	return &recorded{c, r}, nil
}

func (r *recording) accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns
}

func (r *recording) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.String()
}

type recorded struct {
	net.Conn
	to *recording
}

func (c *recorded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.read.Write(b[:n])
	return n, err
}

// TestAnyServersRepliesCount uses replies with a different order of attributes, white space, and other texts.
func TestAnyServersRepliesCount(t *testing.T) {
	tally := &Tally{any: true, owed: []int{5, 1, 1, 1}}
	require.NoError(t, tally.addReply([]byte("<?xml version=\"1.0\"?>\n<results>\n"+
		" <opened id='17' sym='S' amount='1' limit='2'></opened>"+
		" <status id='17'><open shares='1'/></status><canceled id='17'><canceled shares='1' time='5'/></canceled>"+
		"<created id='1'/><error id='9'>I do not want to</error></results>\n"), tooLate))
	require.Equal(t, []uint64{17}, tally.opened)
	require.EqualValues(t, 4, tally.Done())
	require.EqualValues(t, 1, tally.Refused)
	require.ErrorContains(t, tally.addReply([]byte("<results><error>no</error></results>"), nothingRefused), "refused: no")
	require.ErrorContains(t, tally.addReply([]byte("<results/>"), nothingRefused), "0 answers to 1 commands")
	require.ErrorContains(t, tally.addReply([]byte("<results><sold/></results>"), nothingRefused), "not an answer: <sold>")
}
