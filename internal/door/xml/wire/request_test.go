package wire

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// done returns the reply to a request if all its commands succeed.
func done(r *Request) string {
	results := make([]exchange.Result, len(r.Commands))
	for i := range results {
		if r.Commands[i].Kind == exchange.PlaceOrder {
			results[i].Order = exchange.OrderID(i + 1)
		}
	}
	return string(r.AppendReply(nil, results))
}

// dollars and units convert decimal strings to scaled integers.
func dollars(t *testing.T, s string) exchange.Cash {
	c, err := exchange.ParseBalance(s)
	require.NoError(t, err)
	return c
}

func units(t *testing.T, s string) exchange.Position {
	p, err := exchange.ParseDeposit(s)
	require.NoError(t, err)
	return p
}

func TestFrameBecomesCommands(t *testing.T) {
	const unit = 1e8
	for frame, want := range map[string][]exchange.Command{
		`<create/>`:              nil,
		`<transactions id="1"/>`: nil,
		`<create><account id="007" balance="1000.5"/><account balance=".5" id="8"></account></create>`: {
			{Kind: exchange.OpenAccount, Account: "007", Balance: dollars(t, "1000.5")},
			{Kind: exchange.OpenAccount, Account: "8", Balance: dollars(t, "0.5")},
		},
		`<create><symbol sym="SPY"/><symbol sym="b2"></symbol></create>`: {
			{Kind: exchange.MakeSymbol, Symbol: "SPY"},
			{Kind: exchange.MakeSymbol, Symbol: "b2"},
		},
		"<create>a note<symbol sym='SPY'>and one<account id='1'> \t\r\n+5.<!-- five --></account> <account " +
			"id='2'>1<![CDATA[0]]></account></symbol></create>": {
			{Kind: exchange.MakeSymbol, Symbol: "SPY"},
			{Kind: exchange.DepositShares, Symbol: "SPY", Account: "1", Deposited: units(t, "5")},
			{Kind: exchange.DepositShares, Symbol: "SPY", Account: "2", Deposited: units(t, "10")},
		},
		`<transactions id="1"><order sym="SPY" amount="100" limit="145.67"/><order limit="1" amount="-0.5" sym="SPY"/>` +
			`<query id="007"/><cancel id="9223372036854775807"/></transactions>`: {
			{Kind: exchange.PlaceOrder, Account: "1", Symbol: "SPY", Terms: exchange.Terms{Side: exchange.Buy,
				Limit: 145.67 * unit}, Shares: 100 * unit},
			{Kind: exchange.PlaceOrder, Account: "1", Symbol: "SPY", Terms: exchange.Terms{Side: exchange.Sell, Limit: unit},
				Shares: unit / 2},
			{Kind: exchange.QueryOrder, Account: "1", Order: 7},
			{Kind: exchange.CancelOrder, Account: "1", Order: 1<<63 - 1},
		},
		`<transactions account="2"><query id="1"> <!-- nothing --> </query></transactions>`: {{Kind: exchange.QueryOrder,
			Account: "2", Order: 1}},
		// Frames that are refused as a whole have no commands.
		`<create a="1"><account id="1" balance="1"/></create>`:      nil,
		`<create xmlns="x"><account id="1" balance="1"/></create>`:  nil,
		`<transactions id="1" x="2"><query id="1"/></transactions>`: nil,
		`<orders><query id="1"/></orders>`:                          nil,
		`<create><account id="1" balance="1"/><create>`:             nil,
		// Refused children have no commands, but their siblings do.
		`<transactions id="1" account="1"><query id="1"/></transactions>`: nil,
		`<transactions id="x"><query id="1"/></transactions>`:             nil,
		`<transactions><query id="1"/></transactions>`:                    nil,
		`<create><symbol sym="-"><account id="1">1</account></symbol><symbol/><symbol sym="A" x="1">` +
			`<account id="1">1</account></symbol></create>`: nil,
		`<create><symbol sym="A"><account id="x">1</account><account id="1">0</account>` +
			`<account id="1" sym="A">1</account><b/></symbol></create>`: {{Kind: exchange.MakeSymbol, Symbol: "A"}},
		`<transactions id="1"><order/><query id="0"/><query id="1">x</query><cancel id="1"><x/></cancel>` +
			`<x:query id="2"/><query id="3"/></transactions>`: {
			{Kind: exchange.QueryOrder, Account: "1", Order: 3}},
	} {
		var r Request
		r.Decode([]byte(frame), nil)
		require.Equal(t, want, append([]exchange.Command(nil), r.Commands...), "%s", frame)
	}
}

func TestRepliesEchoWhatWasSent(t *testing.T) {
	for frame, want := range map[string]string{
		`<create/>`:              `<results/>`,
		`<transactions/>`:        `<results/>`,
		`<transactions id="x"/>`: `<results/>`,
		`<create><account id="007" balance="+1.50"/></create>`: `<results><created id="007"/></results>`,
		`<create><symbol sym="A"/></create>`:                   `<results><created sym="A"/></results>`,
		`<create><symbol sym="A"><account id="1">1</account><account id="2">2</account>` +
			`</symbol></create>`: `<results><created sym="A" id="1"/><created sym="A" id="2"/></results>`,
		`<transactions id="1"><order limit="01." amount="+.5" sym="A"/>` +
			`</transactions>`: `<results><opened sym="A" amount="+.5" limit="01." id="1"/></results>`,
		`<transactions id="1"><query id="007"/>` +
			`<cancel id="08"/></transactions>`: `<results><status id="007"></status><canceled id="08"></canceled></results>`,
		`<transactions id="1"><order id="4" limit="3" amount="2" sym="1" x="5"/>` +
			`</transactions>`: `<results><error sym="1" amount="2" limit="3" id="4">&lt;order&gt; has no attribute ` +
			`id</error></results>`,
		`<transactions id="1"><query id="&lt;&amp;&gt;&quot;'&#9;&#10;&#13; é"/>` +
			`</transactions>`: `<results><error id="&lt;&amp;&gt;&quot;'&#x9;&#xA;&#xD; é">order id ` +
			`"&lt;&amp;&gt;\"'\t\n\r é" is not a ` +
			`whole number</error></results>`,
		`<create><symbol sym="A"><b sym="B" id="1"/>` +
			`</symbol></create>`: `<results><error sym="A" id="1">unknown element &lt;b&gt; in &lt;symbol&gt;</error></results>`,
		`<create><symbol><account id="1" sym="B">1</account><account/></symbol>` +
			`</create>`: `<results><error sym="B" id="1">&lt;symbol&gt; has no sym</error>` +
			`<error>&lt;symbol&gt; has no sym</error></results>`,
		`<create><symbol sym=""><account id="1">1</account>` +
			`</symbol><symbol sym=""/></create>`: `<results><error sym="" id="1">symbol "" is not 1 to 32 characters</error>` +
			`<error sym="">symbol "" is not 1 to 32 characters</error></results>`,
		`<create><symbol sym="A" id="1"><account id="2">1</account>` +
			`</symbol></create>`: `<results><error sym="A" id="1">&lt;symbol&gt; has no attribute id</error></results>`,
		`<create><account id="1"/><account balance="1"/><account id="1" balance="1">x</account>` +
			`<account id="2" balance="1"/></create>`: `<results><error id="1">&lt;account&gt; has no balance</error>` +
			`<error>&lt;account&gt; has no id</error><error id="1">&lt;account&gt; has no text in it</error>` +
			`<created id="2"/></results>`,
		`<transactions><order sym="A" amount="1" limit="1"/>` +
			`<b/></transactions>`: `<results><error sym="A" amount="1" limit="1">&lt;transactions&gt; has no id</error>` +
			`<error>&lt;transactions&gt; has no id</error></results>`,
		`<transactions id="1" account="1"><query id="1"/>` +
			`</transactions>`: `<results><error id="1">&lt;transactions&gt; names its account twice, as id and as ` +
			`account</error></results>`,
		`<transactions id="1" sym="2"/>`: `<results><error>&lt;transactions&gt; has no attribute sym</error></results>`,
		`<create x:y="1"/>`:              `<results><error>&lt;create&gt; has no attribute x:y</error></results>`,
		`<x:create/>`: `<results><error>unknown root element &lt;x:create&gt;, only &lt;create&gt; and ` +
			`&lt;transactions&gt; are known</error></results>`,
	} {
		var r Request
		r.Decode([]byte(frame), nil)
		require.Equal(t, want, done(&r), "%s", frame)
		requireReply(t, done(&r))
	}
}

func TestDecodeUsesARequestAnew(t *testing.T) {
	frames := append([]string{setup, `<transactions id="x"><query id="1"/></transactions>`, `<orders/>`, `<create/>`,
		`<transactions id="1"><order sym="A" amount="1" limit="1"/></transactions>`}, malformed...)
	var used Request
	for _, frame := range frames {
		var fresh Request
		used.Decode([]byte(frame), nil)
		fresh.Decode([]byte(frame), nil)
		require.Equal(t, append([]exchange.Command{}, fresh.Commands...), append([]exchange.Command{}, used.Commands...),
			"%s", frame)
		require.Equal(t, done(&fresh), done(&used), "%s", frame)
		require.Equal(t, fresh.Refused(), used.Refused())
	}
	used.Decode([]byte(setup), nil)
	commands := used.Commands[:cap(used.Commands)]
	used.Decode([]byte(`<create/>`), nil)
	require.NotEmpty(t, commands)
	for _, c := range commands {
		require.Zero(t, c, "nothing of an earlier frame is kept")
	}
}

func TestRequestKeepsNothingOfItsFrame(t *testing.T) {
	frame := []byte(`<transactions id="1"><order sym="A" amount="2" limit="3"/><query id="x"/></transactions>`)
	var r Request
	r.Decode(frame, nil)
	want := done(&r)
	for i := range frame {
		frame[i] = '?'
	}
	require.Equal(t, want, done(&r))
	require.Equal(t, exchange.AccountID("1"), r.Commands[0].Account)
}

func TestRefusedCountsErrorsWithoutACommand(t *testing.T) {
	for frame, want := range map[string]int{
		`<create/>`: 0, setup: 0, `<create>`: 1, `<orders/>`: 1, `<create x="1"/>`: 1,
		`<transactions><query id="1"/><query id="2"/></transactions>`:                                 2,
		`<transactions id="1"><query id="1"/><query/><x/><order/></transactions>`:                     3,
		`<create><symbol sym="?"/><symbol sym="A"><account/></symbol><symbol sym="B"/></create>`:      2,
		`<create><symbol sym="?"><account/><account/></symbol><account id="1" balance="1"/></create>`: 2,
	} {
		var r Request
		r.Decode([]byte(frame), nil)
		require.Equal(t, want, r.Refused(), "%s", frame)
	}
}
