package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
)

// reasons returns all reject reasons, except unknown.
func reasons() (all []exchange.RejectReason) {
	for r := exchange.OK; r.String() != "unknown"; r++ {
		all = append(all, r)
	}
	return all
}

func TestStatusListsOpenThenCanceledThenExecutions(t *testing.T) {
	const unit = 1e8
	two := []exchange.Execution{{Shares: 200 * unit, Price: 127 * unit, Time: 1519348326_987654321},
		{Shares: unit / 2, Price: 125, Time: -exchange.Second}}
	for want, s := range map[string]exchange.Status{
		`<open shares="100"/>`:                              {Open: 100 * unit},
		`<canceled shares="0.00000001" time="1519348326"/>`: {Canceled: 1, CanceledAt: 1519348326_987654321},
		`<open shares="1.5"/><executed shares="200" price="127" time="1519348326"/>` +
			`<executed shares="0.5" price="0.00000125" time="-1"/>`: {Open: 1.5 * unit, Executions: two},
		`<canceled shares="3" time="0"/><executed shares="200" price="127" time="1519348326"/>` +
			`<executed shares="0.5" price="0.00000125" time="-1"/>`: {Canceled: 3 * unit, Executions: two},
		`<executed shares="200" price="127" time="1519348326"/>` +
			`<executed shares="0.5" price="0.00000125" time="-1"/>`: {Executions: two},
	} {
		var r Request
		r.Decode([]byte(`<transactions id="1"><query id="01"/><cancel id="2"/></transactions>`), nil)
		reply := string(r.AppendReply([]byte("before "), []exchange.Result{{Status: s}, {Status: s}}))
		require.Equal(t, `before <results><status id="01">`+want+`</status><canceled id="2">`+want+`</canceled></results>`,
			reply)
	}
}

// TestRejectNamesTheValues checks the text of every reject reason for each command that can have it.
func TestRejectNamesTheValues(t *testing.T) {
	const frame = `<create><account id="1" balance="1000"/><symbol sym="A"/><symbol sym="B">` +
		`<account id="2">5.5</account></symbol></create>`
	const trades = `<transactions id="1"><order sym="A" amount="100" limit="145.67"/>` +
		`<order sym="A" amount="-0.5" limit="1"/><query id="7"/><order sym="A" amount="2" limit="3" ref="r-1"/>` +
		`<query ref="r-2"/></transactions>`
	covered := map[exchange.RejectReason]bool{exchange.OK: true}
	for _, c := range []struct {
		frame   string
		command int
		result  exchange.Result
		want    string
	}{
		{frame, 0, exchange.Result{Reason: exchange.AccountExists}, `<error id="1">account 1 already exists</error>`},
		{frame, 0, exchange.Result{Reason: exchange.BalanceTotalExceeded},
			`<error id="1">a balance of 1000 would bring all balances to 1000000000000000000000 or more</error>`},
		{frame, 1, exchange.Result{Reason: exchange.SymbolLimitExceeded, Most: 5},
			`<error sym="A">symbol A cannot be made: the exchange is at its limit of symbols, 5 (--max-symbols)</error>`},
		{frame, 2, exchange.Result{Reason: exchange.SymbolLimitExceeded, Most: 5},
			`<error sym="B" id="2">symbol B cannot be made: the exchange is at its limit of symbols, 5 ` +
				`(--max-symbols)</error>`},
		{frame, 2, exchange.Result{Reason: exchange.NoRoom}, `<error sym="B" id="2">the exchange accepts nothing new: its ` +
			`disk has no room for the journal; cancel and query still work</error>`},
		{frame, 3, exchange.Result{Reason: exchange.UnknownSymbol}, `<error sym="B" id="2">there is no symbol B</error>`},
		{frame, 3, exchange.Result{Reason: exchange.UnknownAccount}, `<error sym="B" id="2">there is no account 2</error>`},
		{frame, 3, exchange.Result{Reason: exchange.PositionTotalExceeded},
			`<error sym="B" id="2">5.5 more would bring all shares of B to 1000000000000000000000 or more</error>`},
		{trades, 0, exchange.Result{Reason: exchange.UnknownSymbol},
			`<error sym="A" amount="100" limit="145.67">there is no symbol A</error>`},
		{trades, 0, exchange.Result{Reason: exchange.DatabaseBehind},
			`<error sym="A" amount="100" limit="145.67">the exchange accepts nothing new until its database has caught up; ` +
				`cancel and query still work</error>`},
		{trades, 0, exchange.Result{Reason: exchange.InsufficientFunds, CashHave: dollars(t, "1000")},
			`<error sym="A" amount="100" limit="145.67">insufficient funds: buying 100 at 145.67 needs 14567, account 1 ` +
				`has 1000</error>`},
		{trades, 1, exchange.Result{Reason: exchange.InsufficientShares, SharesHave: units(t, "0.25")},
			`<error sym="A" amount="-0.5" limit="1">insufficient shares: selling 0.5 of A, account 1 has 0.25</error>`},
		{trades, 2, exchange.Result{Reason: exchange.UnknownAccount}, `<error id="7">there is no account 1</error>`},
		{trades, 2, exchange.Result{Reason: exchange.UnknownOrder}, `<error id="7">there is no order 7</error>`},
		{trades, 2, exchange.Result{Reason: exchange.ForeignOrder},
			`<error id="7">order 7 does not belong to account 1</error>`},
		{trades, 2, exchange.Result{Reason: exchange.AlreadyExecuted},
			`<error id="7">order 7 has nothing open: it is executed</error>`},
		{trades, 2, exchange.Result{Reason: exchange.AlreadyCanceled},
			`<error id="7">order 7 has nothing open: it was canceled before</error>`},
		{trades, 2, exchange.Result{Reason: exchange.HistoryUnavailable},
			`<error id="7">order 7 was closed long ago, and the database that knows it does not answer now</error>`},
		{trades, 2, exchange.Result{Reason: exchange.NoRoomToCancel},
			`<error id="7">order 7 cannot be canceled now: the disk has no room for the journal, and the reserve for ` +
				`cancels is used up; query still works</error>`},
		{trades, 0, exchange.Result{Reason: exchange.TooManyFills},
			`<error sym="A" amount="100" limit="145.67">100 A at 145.67 would execute against more orders than fit into ` +
				`one record of the journal; send it in smaller parts</error>`},
		{trades, 3, exchange.Result{Reason: exchange.RefUsed}, `<error sym="A" amount="2" limit="3" ref="r-1">account 1 ` +
			`has used ref r-1 before, for something else</error>`},
		{trades, 3, exchange.Result{Reason: exchange.RefUnavailable},
			`<error sym="A" amount="2" limit="3" ref="r-1">what ref r-1 was used for is in the database, which does not ` +
				`answer now; nothing was done, try again later</error>`},
		{trades, 3, exchange.Result{Reason: exchange.RateExceeded},
			`<error sym="A" amount="2" limit="3" ref="r-1">account 1 exceeds its limit of orders and creates per second; try ` +
				`again later</error>`},
		{trades, 4, exchange.Result{Reason: exchange.UnknownOrder},
			`<error ref="r-2">account 1 has no order with ref r-2</error>`},
		{trades, 4, exchange.Result{Reason: exchange.AlreadyExecuted, Order: 9},
			`<error ref="r-2">order 9 has nothing open: it is executed</error>`},
		{trades, 1, exchange.Result{Reason: exchange.Halted, Details: &exchange.RejectDetails{Halt: &exchange.Halt{
			Since: 1519348326_987654321, Reason: `<"news">`}}},
			`<error sym="A" amount="-0.5" limit="1">symbol A is halted since 2018-02-23T01:12:06Z and accepts no orders; ` +
				`cancel and query work: &lt;"news"&gt;</error>`},
		{trades, 2, exchange.Result{Reason: exchange.TooManyCancels},
			`<error id="7">account 1 has more open orders than fit into one record of the journal</error>`},
		{frame, 0, exchange.Result{Reason: exchange.AccountLimitExceeded, Most: 5},
			`account 1 cannot be made: the exchange is at its limit of accounts, 5 (--max-accounts)</error>`},
		{trades, 0, exchange.Result{Reason: exchange.AccountOrdersExceeded, Most: 5},
			`<error sym="A" amount="100" limit="145.67">account 1 is at its limit of open orders, 5 ` +
				`(--max-open-orders-account); cancel and query still work</error>`},
		{trades, 0, exchange.Result{Reason: exchange.OpenOrdersExceeded, Most: 5},
			`<error sym="A" amount="100" limit="145.67">the exchange is at its limit of open orders, 5 ` +
				`(--max-open-orders); cancel and query still work</error>`},
		{trades, 1, exchange.Result{Reason: exchange.OrderTooSmall,
			Details: &exchange.RejectDetails{Least: &exchange.Cash{Lo: 2e16}}},
			`<error sym="A" amount="-0.5" limit="1">0.5 A at 1 is worth 0.5, and the minimum is 2 ` +
				`(--min-order-value)</error>`},
		{trades, 2, exchange.Result{Reason: exchange.NotAllowed},
			`<error id="7">the token of this connection is not for account 1</error>`},
		{frame, 0, exchange.Result{Reason: exchange.NotAllowed}, `&lt;create&gt; needs a token of scope admin</error>`},
		{trades, 2, exchange.Result{Reason: exchange.ReplyTooLong, Most: 9},
			`<error id="7">the reply to this frame is over 9 bytes; ask for this order in another frame</error>`},
		{trades, 2, exchange.Result{Reason: exchange.NoMemory},
			`<error id="7">the exchange lacks the memory for so long a reply now; ask for this order again later, in a frame ` +
				`of its own</error>`},
		{trades, 2, exchange.Result{Reason: 200}, `<error id="7">refused: unknown</error>`},
	} {
		requireRefusal(t, c.frame, c.command, c.result, c.want)
		covered[c.result.Reason] = true
	}
	for frame, results := range instructedRefusals(t) {
		for _, c := range results {
			requireRefusal(t, frame, 0, c.result, c.want)
			covered[c.result.Reason] = true
		}
	}
	for _, reason := range reasons() {
		require.True(t, covered[reason], "%s has no case", reason)
	}
}

// requireRefusal checks that the reply to a frame contains want if the given command has the result.
func requireRefusal(t *testing.T, frame string, command int, result exchange.Result, want string) {
	t.Helper()
	var r Request
	r.Decode([]byte(frame), nil)
	results := make([]exchange.Result, len(r.Commands))
	results[command] = result
	if command == 2 && strings.HasPrefix(frame, "<create>") {
		results[3] = exchange.Result{Reason: exchange.UnknownSymbol} // because the symbol was not made
	}
	reply := string(r.AppendReply(nil, results))
	require.Contains(t, reply, want)
	require.Equal(t, 1, strings.Count(reply, "<error"))
	requireReply(t, reply)
}

// TestErrorTextIsAlwaysOneLineOfXML: AppendError makes a valid reply from any text.
func TestErrorTextIsAlwaysOneLineOfXML(t *testing.T) {
	for text, want := range map[string]string{
		"a":              "a",
		"<&>\"'":         "&lt;&amp;&gt;\"'",
		"]]>":            "]]&gt;",
		"a\nb\r\tc":      "a b  c",
		"\x00\x1b\ufffe": "\ufffd\ufffd\ufffd",
		"\xff\xed\xa0":   "\ufffd\ufffd\ufffd",
		"é\U0001f600":    "é\U0001f600",
	} {
		require.Equal(t, "<results><error>"+want+"</error></results>", string(AppendError(nil, text)))
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.Byte(), 1, 700).Draw(t, "text"))
		if len(text) < 100 {
			text = "x" + text + strings.Repeat(text, 9)
		}
		reply := string(AppendError([]byte("before"), text))
		require.True(t, strings.HasPrefix(reply, "before<results>"))
		require.True(t, utf8.ValidString(reply))
		if strings.Trim(text, whiteSpace) != "" {
			requireReply(t, strings.TrimPrefix(reply, "before"))
		}
	})
}

// TestEveryCharacterIsReadBackWhereverItStands: a parser reads each character back unchanged from a value or
// a text, whether it was escaped or not.
func TestEveryCharacterIsReadBackWhereverItStands(t *testing.T) {
	characters := "\t\n\r\u00e9\U0001f600"
	for c := ' '; c <= '\x7f'; c++ {
		characters += string(c)
	}
	for _, c := range characters {
		for _, value := range []string{string(c), "a" + string(c) + "b", "&" + string(c), string(c) + "<"} {
			root, err := parseDocument(NewTransactions(value).Append(nil), ElementsMax)
			require.NoError(t, err, "%q", value)
			got, _ := root.attr("id")
			require.Equal(t, value, got)
			answers, err := ParseReply(AppendError(nil, value))
			require.NoError(t, err, "%q", value)
			require.Equal(t, strings.Map(func(r rune) rune {
				if r < ' ' {
					return ' '
				}
				return r
			}, value), answers[0].Error)
		}
	}
}

func TestLongErrorTextIsCut(t *testing.T) {
	reply := string(AppendError(nil, strings.Repeat("é", 10_000)))
	requireReply(t, reply)
	require.Equal(t, "<results><error>"+strings.Repeat("é", 250)+"…</error></results>", reply)
	requireReply(t, string(AppendError(nil, strings.Repeat("\x80", 10_000))))
}

func TestAReplyIsMadePlaceByPlace(t *testing.T) {
	var r Request
	r.Decode([]byte(`<transactions id="1"><query id="1"/><nonsense/><query id="2"/><cancel id="3"/></transactions>`), nil)
	results := []exchange.Result{{Reason: exchange.AlreadyExecuted}, {}, {Reason: exchange.AlreadyExecuted}}
	require.Equal(t, 4, r.Places())
	reply := []byte(ReplyBegin)
	var commands []int
	for i := range r.Places() {
		commands = append(commands, r.Command(i))
		if i == 2 {
			reply = r.AppendRefusal(reply, i, exchange.Refusal{Text: "not <now>"})
		} else {
			reply = r.AppendAnswer(reply, i, results)
		}
	}
	require.Equal(t, []int{0, -1, 1, 2}, commands)
	require.Equal(t, `<results><error id="1">order 1 has nothing open: it is executed</error>`+
		`<error>unknown element &lt;nonsense&gt; in &lt;transactions&gt;</error><error id="2">not &lt;now&gt;</error>`+
		`<error id="3">order 3 has nothing open: it is executed</error></results>`, string(append(reply, ReplyEnd...)))
	for _, whole := range []string{`<create/>`, `<transactions id="1"/>`, `<buy/>`, `no XML`} {
		r.Decode([]byte(whole), nil)
		require.Zero(t, r.Places())
	}
}

func TestFrameInPlaceIsAppendFrame(t *testing.T) {
	for _, room := range []int{0, 100} {
		for _, xml := range []string{"", "<results/>", strings.Repeat("x", 12345)} {
			dst := append(make([]byte, 0, len(xml)+room), "before"...)
			want := string(AppendFrame(dst, []byte(xml)))
			require.Equal(t, want, string(FrameInPlace(append(dst, xml...), len("before"))))
		}
	}
}

// TestOnlyErroneousValuesAreShortened: an accepted value is repeated in full, however long; a rejected one
// is cut.
func TestOnlyErroneousValuesAreShortened(t *testing.T) {
	zeros := strings.Repeat("0", 2*echoBytesMax)
	for _, element := range []string{`<order sym="A" amount="V" limit="1"/>`, `<order sym="A" amount="1" limit="V"/>`,
		`<query id="V"/>`, `<cancel id="V"/>`,
		`<order sym="A" amount="x" limit="V"/>`, `<order sym="A" amount="V" limit="x"/>`} {
		for value, whole := range map[string]bool{zeros + "1": true, zeros + "x": false} {
			var r Request
			r.Decode([]byte(`<transactions id="1">`+strings.ReplaceAll(element, "V", value)+`</transactions>`), nil)
			reply := string(r.AppendReply(nil, make([]exchange.Result, len(r.Commands))))
			require.Equal(t, whole, strings.Contains(reply, value), "%s: %s", element, reply)
			require.Equal(t, !whole, strings.Contains(reply, `"`+zeros[:echoBytesCut]+ellipsis+`"`), "%s: %s", element, reply)
		}
	}
}
