package wire

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func TestInstructionsBecomeCommands(t *testing.T) {
	const unit = 1e8
	order := func(change func(*exchange.Command)) []exchange.Command {
		c := exchange.Command{Kind: exchange.PlaceOrder, Account: "1", Symbol: "A", Shares: unit,
			Terms: exchange.Terms{Side: exchange.Buy, Limit: 2 * unit}}
		change(&c)
		return []exchange.Command{c}
	}
	one := func(c exchange.Command) []exchange.Command {
		c.Account = "1"
		return []exchange.Command{c}
	}
	for child, want := range map[string][]exchange.Command{
		`<order sym="A" amount="1" limit="2" tif="GTC" post="no" cod="no"/>`: order(func(*exchange.Command) {}),
		`<order sym="A" amount="1" limit="2" tif="IOC" stp="newest"/>`: order(func(c *exchange.Command) {
			c.TIF, c.STP = exchange.IOC, exchange.CancelNewest
		}),
		`<order sym="A" amount="1" limit="2" tif="FOK" stp="oldest" report="full"/>`: order(func(c *exchange.Command) {
			c.TIF, c.STP, c.Report = exchange.FOK, exchange.CancelOldest, true
		}),
		`<order sym="A" amount="1" limit="2" post="yes" stp="both" cod="yes" ref="r"/>`: order(func(c *exchange.Command) {
			c.Post, c.STP, c.OnDisconnect, c.Ref = true, exchange.CancelBoth, true, "r"
		}),
		`<order sym="A" amount="1" type="market"/>`: order(func(c *exchange.Command) {
			c.Type, c.TIF, c.Limit = exchange.Market, exchange.IOC, 0
		}),
		`<order sym="A" amount="1" limit="2" type="market" tif="FOK"/>`: order(func(c *exchange.Command) {
			c.Type, c.TIF = exchange.Market, exchange.FOK
		}),
		`<amend id="7" amount="-3" limit="2" report="full" newref="n"/>`: one(exchange.Command{Kind: exchange.AmendOrder,
			Order: 7, Terms: exchange.Terms{Side: exchange.Sell, Limit: 2 * unit}, Shares: 3 * unit, Report: true,
			More: &exchange.CommandMore{NewRef: "n"}}),
		`<amend ref="r" limit="2"/>`: one(exchange.Command{Kind: exchange.AmendOrder, Ref: "r",
			Terms: exchange.Terms{Limit: 2 * unit}}),
		`<cancel-all/>`:         one(exchange.Command{Kind: exchange.CancelAll}),
		`<cancel-all sym="A"/>`: one(exchange.Command{Kind: exchange.CancelAll, Symbol: "A"}),
		`<cancel-after seconds="086400"/>`: one(exchange.Command{Kind: exchange.SetSwitch,
			More: &exchange.CommandMore{Seconds: 86400}}),
		`<cancel-after seconds="0"/>`:   one(exchange.Command{Kind: exchange.SetSwitch, More: new(exchange.CommandMore)}),
		`<account/>`:                    one(exchange.Command{Kind: exchange.ShowAccount}),
		`<orders/>`:                     one(exchange.Command{Kind: exchange.ListOrders}),
		`<orders sym="A" after="007"/>`: one(exchange.Command{Kind: exchange.ListOrders, Symbol: "A", More: after7}),
		`<fills/>`:                      one(exchange.Command{Kind: exchange.ListFills}),
		`<fills after="7"/>`:            one(exchange.Command{Kind: exchange.ListFills, More: after7}),
		`<fills after="0"/>`: one(exchange.Command{Kind: exchange.ListFills,
			More: &exchange.CommandMore{HasAfter: true}}),
	} {
		var r Request
		r.Decode([]byte(`<transactions id="1">`+child+`</transactions>`), nil)
		require.Equal(t, want, r.Commands, "%s", child)
	}
	var r Request
	r.Decode([]byte(`<create><symbol sym="A" tick="0.05" lot="10"><account id="1">5</account></symbol>`+
		`<symbol sym="B" lot="1"/></create>`), nil)
	rules := &exchange.CommandMore{Rules: exchange.SymbolRules{Tick: unit / 20, Lot: 10 * unit}}
	require.Equal(t, []exchange.Command{{Kind: exchange.MakeSymbol, Symbol: "A", More: rules},
		{Kind: exchange.DepositShares, Symbol: "A", Account: "1", Deposited: units(t, "5"), More: rules},
		{Kind: exchange.MakeSymbol, Symbol: "B", More: &exchange.CommandMore{Rules: exchange.SymbolRules{Lot: unit}}}},
		r.Commands)
}

var after7 = &exchange.CommandMore{After: 7, HasAfter: true}

// TestAWrongInstructionIsNamed: the error names the invalid value, and all attributes are repeated in order.
func TestAWrongInstructionIsNamed(t *testing.T) {
	for child, want := range map[string]string{
		`<order ref="r" cod="no" tif="ioc" limit="2" amount="1" sym="A"/>`: `<error sym="A" amount="1" limit="2" tif="ioc" ` +
			`cod="no" ref="r">tif "ioc" is not one of GTC, IOC, FOK</error>`,
		`<order sym="A" amount="1" limit="2" type="limit"/>`:   `>type "limit" is not market<`,
		`<order sym="A" amount="1" limit="2" stp="none"/>`:     `>stp "none" is not one of newest, oldest, both<`,
		`<order sym="A" amount="1" limit="2" post="Yes"/>`:     `>post "Yes" is not yes or no<`,
		`<order sym="A" amount="1" limit="2" cod=""/>`:         `>cod "" is not yes or no<`,
		`<order sym="A" amount="1" limit="2" report="all"/>`:   `>report "all" is not full<`,
		`<order sym="A" amount="1" tif="IOC"/>`:                `>&lt;order&gt; has no limit<`,
		`<order sym="A" amount="1" type="market" tif="GTC"/>`:  `>a market order is IOC or FOK, not GTC<`,
		`<order sym="A" amount="1" type="market" post="yes"/>`: `>a market order cannot be a post<`,
		`<order sym="A" amount="1" limit="2" tif="FOK" post="yes"/>`: `<error sym="A" amount="1" limit="2" tif="FOK" ` +
			`post="yes">a post rests, so it cannot be FOK</error>`,
		`<order sym="A" amount="1" limit="2" newref="n"/>`: `<error sym="A" amount="1" limit="2" newref="n">&lt;order&gt; ` +
			`has no attribute newref</error>`,
		`<amend id="1"/>`:                       `<error id="1">&lt;amend&gt; has neither an amount nor a limit</error>`,
		`<amend amount="1"/>`:                   `<error amount="1">&lt;amend&gt; has no id</error>`,
		`<amend id="1" ref="r" amount="1"/>`:    `>&lt;amend&gt; names its order twice, by id and by ref<`,
		`<amend id="1" limit="0"/>`:             `>limit "0" is not more than 0<`,
		`<amend id="1" limit="1" newref="ä"/>`:  `<error limit="1" id="1" newref="ä">newref "ä" has a character other than`,
		`<amend id="1" amount="1" sym="A"/>`:    `>&lt;amend&gt; has no attribute sym<`,
		`<cancel-all sym=""/>`:                  `<error sym="">symbol "" is not 1 to 32 characters<`,
		`<cancel-after/>`:                       `<error>&lt;cancel-after&gt; has no seconds<`,
		`<cancel-after seconds="+1"/>`:          `<error seconds="+1">seconds "+1" is not a whole number from 0 to 86400<`,
		`<cancel-after seconds="86401"/>`:       `>seconds "86401" is not a whole number from 0 to 86400<`,
		`<orders after="9223372036854775808"/>`: `>after "9223372036854775808" is not a whole number of 0 or more<`,
		`<fills sym="A"/>`:                      `<error sym="A">&lt;fills&gt; has no attribute sym<`,
		`<account>1</account>`:                  `>&lt;account&gt; has no text in it<`,
	} {
		var r Request
		r.Decode([]byte(`<transactions id="1">`+child+`</transactions>`), nil)
		require.Empty(t, r.Commands, child)
		reply := string(r.AppendReply(nil, nil))
		require.Contains(t, reply, want)
		requireReply(t, reply)
	}
	for child, want := range map[string]string{
		`<symbol sym="A" tick="0"/>`: `<error sym="A" tick="0">tick "0" is not more than 0</error>`,
		`<symbol sym="A" lot="0.000000001"/>`: `<error sym="A" lot="0.000000001">lot "0.000000001" has more than 8 ` +
			`fractional digits</error>`,
	} {
		var r Request
		r.Decode([]byte(`<create>`+child+`</create>`), nil)
		require.Equal(t, `<results>`+want+`</results>`, string(r.AppendReply(nil, nil)))
	}
}

func TestASessionIsAboutItsConnection(t *testing.T) {
	var r Request
	reply := func(frame string) string {
		r.Decode([]byte(frame), nil)
		return string(r.AppendReply(nil, make([]exchange.Result, len(r.Commands))))
	}
	require.Equal(t, `<results><session cancel="disconnect" timeout="060"/></results>`,
		reply(`<session timeout='060' cancel="disconnect"> </session>`))
	silence, sets := r.Connection()
	require.Equal(t, time.Minute, silence)
	require.True(t, sets)
	require.Zero(t, r.Places()+r.Refused()+len(r.Commands))
	require.Equal(t, `<results><session cancel="disconnect"/></results>`, reply(string(AppendSession(nil, ""))))
	for frame, want := range map[string]string{
		`<session/>`:                                      "&lt;session&gt; has no cancel",
		`<session cancel="never"/>`:                       `cancel "never" is not disconnect`,
		`<session cancel="disconnect" timeout="0"/>`:      `timeout "0" is not a whole number from 1 to 86400`,
		`<session cancel="disconnect" id="1"/>`:           `&lt;session&gt; has no attribute id`,
		`<session cancel="disconnect"><order/></session>`: `&lt;session&gt; has no element &lt;order&gt; in it`,
	} {
		require.Equal(t, `<results><error>`+want+`</error></results>`, reply(frame))
		_, sets = r.Connection()
		require.False(t, sets, frame)
	}
	const orders = `<transactions id="1"><order sym="A" amount="1" limit="1"/><order sym="A" amount="1" limit="1" ` +
		`cod="no"/><order sym="A" amount="1" limit="1" cod="yes"/></transactions>`
	for _, frame := range []string{orders, strings.ReplaceAll(orders, ` cod="no"`, "")} {
		for _, on := range []bool{false, true} {
			r.CancelOnDisconnect(on)
			r.Decode([]byte(frame), nil)
			require.Equal(t, []bool{on, on && frame != orders, true},
				[]bool{r.Commands[0].OnDisconnect, r.Commands[1].OnDisconnect, r.Commands[2].OnDisconnect})
		}
	}
	r.Decode([]byte(`<transactions id="1"><order sym="A" amount="1" limit="1"/></transactions>`), nil)
	require.True(t, r.Commands[0].OnDisconnect, "the scanner knows it too")
}

// TestReportsOfManyExecutions: a report has at most ReportExecutionsMax executions, and <more/> if any were
// left out.
func TestReportsOfManyExecutions(t *testing.T) {
	var r Request
	r.Decode([]byte(`<transactions id="1"><order sym="A" amount="1" limit="1" report="full"/></transactions>`), nil)
	report := func(n int, cut bool) string {
		return string(r.AppendReply(nil, []exchange.Result{{Order: 7, Cut: cut,
			Status: exchange.Status{Open: 1, Executions: make([]exchange.Execution, n)}}}))
	}
	for n, cut := range map[int]bool{0: false, 1: false, exchange.ReportExecutionsMax: false,
		exchange.ReportExecutionsMax + 1: true} {
		reply := report(n, false)
		require.Equal(t, min(n, exchange.ReportExecutionsMax), strings.Count(reply, "<executed "))
		require.Equal(t, cut, strings.HasSuffix(reply, "<more/></opened></results>"))
		require.Contains(t, reply, `report="full" id="7"><open shares="0.00000001"/>`)
	}
	require.Contains(t, report(0, true), `<open shares="0.00000001"/><more/></opened>`)
}

// TestALineOfAViewHasItsBound: no element of a view is larger than ViewBytesMax. Sessions rely on that.
func TestALineOfAViewHasItsBound(t *testing.T) {
	sym := exchange.Symbol(strings.Repeat("A", exchange.SymbolCharsMax))
	const most = 9e18 - 1 // largest number of shares and largest price
	orders := appendOrders(nil, &exchange.OrdersView{Orders: []exchange.OrderDetail{{ID: math.MaxInt64, Symbol: sym,
		Terms:        exchange.Terms{Side: exchange.Sell, Post: true, STP: exchange.CancelNewest, Limit: most},
		OnDisconnect: true, Open: most, Time: math.MaxInt64}}})
	fills := appendFills(nil, &exchange.FillsView{Fills: []exchange.AccountFill{{N: math.MaxInt64, Order: math.MaxInt64,
		Symbol: sym, Side: exchange.Sell, Shares: most, Price: most, Time: math.MaxInt64}}})
	require.LessOrEqual(t, len(orders)-len("<orders></orders>"), ViewBytesMax)
	require.LessOrEqual(t, len(fills)-len("<fills></fills>"), ViewBytesMax)
}
