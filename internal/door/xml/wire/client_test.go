package wire

import (
	"encoding/xml"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
)

// anyValue draws a string of characters that XML allows.
func anyValue(t *rapid.T, label string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && !strings.ContainsRune(whiteSpace, r) || r == 0xfffe || r == 0xffff {
			return '\n'
		}
		return r
	}, rapid.OneOf(rapid.String(), rapid.StringMatching(`[&<>"' \t\r\n;#x]{0,9}`)).Draw(t, label))
}

// TestWhatAClientSendsIsWhatAServerReads checks decode(encode(x)) = x for valid values.
func TestWhatAClientSendsIsWhatAServerReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		account := exchange.AccountID(rapid.StringMatching(`[0-9]{1,64}`).Draw(t, "account"))
		symbol := exchange.Symbol(rapid.StringMatching(`[A-Za-z0-9]{1,32}`).Draw(t, "symbol"))
		create, trades := new(Create), NewTransactions(string(account))
		var creates, orders []exchange.Command
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			size := exchange.Shares(rapid.Int64Range(1, 9e18-1).Draw(t, "size"))
			price := exchange.Price(rapid.Int64Range(1, 9e18-1).Draw(t, "price"))
			id := exchange.OrderID(rapid.Int64Range(1, 1<<63-1).Draw(t, "id"))
			balance := exchange.Notional(size, 1e8)
			ref := rapid.StringMatching(`[A-Za-z0-9._:-]{0,64}`).Draw(t, "ref")
			create.Account(Account{string(account), balance.String(), ref})
			create.Symbol(string(symbol), Placement{string(account), size.String(), ref}, Placement{"7", " 1\r\n", ""})
			create.Symbol(string(symbol))
			creates = append(creates,
				exchange.Command{Kind: exchange.OpenAccount, Account: account, Balance: balance, Ref: exchange.Ref(ref)},
				exchange.Command{Kind: exchange.MakeSymbol, Symbol: symbol},
				exchange.Command{Kind: exchange.DepositShares, Symbol: symbol, Account: account, Deposited: size.Position(),
					Ref: exchange.Ref(ref)},
				exchange.Command{Kind: exchange.DepositShares, Symbol: symbol, Account: "7",
					Deposited: exchange.Shares(1e8).Position()},
				exchange.Command{Kind: exchange.MakeSymbol, Symbol: symbol})

			number := strconv.FormatUint(uint64(id), 10)
			trades.Order(string(symbol), size.String(), price.String()).Order(string(symbol), "-"+size.String(),
				price.String()).Query(number).Cancel(number)
			trades.OrderRef(string(symbol), size.String(), price.String(), ref).QueryRef("r" + ref[:len(ref)/2]).CancelRef("R.")
			orders = append(orders,
				exchange.Command{Kind: exchange.PlaceOrder, Account: account, Symbol: symbol,
					Terms: exchange.Terms{Side: exchange.Buy, Limit: price}, Shares: size},
				exchange.Command{Kind: exchange.PlaceOrder, Account: account, Symbol: symbol,
					Terms: exchange.Terms{Side: exchange.Sell, Limit: price}, Shares: size},
				exchange.Command{Kind: exchange.QueryOrder, Account: account, Order: id},
				exchange.Command{Kind: exchange.CancelOrder, Account: account, Order: id},
				exchange.Command{Kind: exchange.PlaceOrder, Account: account, Symbol: symbol,
					Terms: exchange.Terms{Side: exchange.Buy, Limit: price}, Shares: size, Ref: exchange.Ref(ref)},
				exchange.Command{Kind: exchange.QueryOrder, Account: account, Ref: exchange.Ref("r" + ref[:len(ref)/2])},
				exchange.Command{Kind: exchange.CancelOrder, Account: account, Ref: "R."})
		}
		var r Request
		r.Decode(create.Append(nil), nil)
		require.Equal(t, creates, r.Commands)
		require.Zero(t, r.Refused())
		r.Decode(trades.Append(nil), nil)
		require.Equal(t, orders, r.Commands)
		require.Zero(t, r.Refused())
	})
}

// TestAnyValueComesBackAsItWasSent: invalid values with any characters are sent, repeated in the reply and parsed
// without a change.
func TestAnyValueComesBackAsItWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c, d := anyValue(t, "a"), anyValue(t, "b"), anyValue(t, "c"), anyValue(t, "d")
		answers, err := ParseReply([]byte(newMarket().answer(new(Create).Account(Account{a, "x" + b, c}).Symbol(c,
			Placement{d, "x" + a, b}).Append(nil))))
		require.NoError(t, err)
		require.Len(t, answers, 2)
		require.Equal(t, Answer{Kind: "error", ID: a, Order: Order{Ref: c}, Error: answers[0].Error}, answers[0])
		require.Equal(t, Answer{Kind: "error", Order: Order{Sym: c, Ref: b}, ID: d, Error: answers[1].Error}, answers[1])

		answers, err = ParseReply([]byte(newMarket().answer(NewTransactions(a).OrderRef(b, c, d,
			a).Query(a).Cancel(b).Append(nil))))
		require.NoError(t, err)
		require.Len(t, answers, 3)
		require.Equal(t, Answer{Kind: "error", Order: Order{Sym: b, Amount: c, Limit: d, Ref: a},
			Error: answers[0].Error}, answers[0])
		require.Equal(t, Answer{Kind: "error", ID: a, Error: answers[1].Error}, answers[1])
		require.Equal(t, Answer{Kind: "error", ID: b, Error: answers[2].Error}, answers[2])
	})
}

func TestBuildersAreUsedMoreThanOnce(t *testing.T) {
	create := new(Create)
	require.Equal(t, "<create></create>", string(create.Append(nil)))
	create.Symbol("A")
	require.Equal(t, `x<create><symbol sym="A"></symbol></create>`, string(create.Append([]byte("x"))))
	create.Account(Account{"1", "2", ""})
	require.Equal(t, `<create><symbol sym="A"></symbol><account id="1" balance="2"/></create>`, string(create.Append(nil)))
	require.Equal(t, `<transactions id="1"></transactions>`, string(NewTransactions("1").Append(nil)))
}

func TestReplyBecomesAnswers(t *testing.T) {
	for reply, want := range map[string][]Answer{
		`<results/>`: {},
		`<?xml version="1.0"?><results> <!-- none --> </results>`: {},
		`<results><created id="1"/><created sym="A"/></results>`: {{Kind: "created", ID: "1"},
			{Kind: "created", Order: Order{Sym: "A"}}},
		`<results><created sym="A" id="1"></created></results>`:  {{Kind: "created", Order: Order{Sym: "A"}, ID: "1"}},
		`<results><error>why &amp; how</error></results>`:        {{Kind: "error", Error: "why & how"}},
		`<results><error sym="" limit="2">why</error></results>`: {{Kind: "error", Order: Order{Limit: "2"}, Error: "why"}},
		`<results><opened sym="A" amount="-1" limit="2" id="3"/></results>`: {{Kind: "opened", Order: Order{Sym: "A",
			Amount: "-1", Limit: "2"}, ID: "3"}},
		`<results><status id="1"><open shares="2"/></status></results>`: {{Kind: "status", ID: "1", Open: "2"}},
		`<results><status id="1"><canceled shares="2" time="3"/><executed shares="4" price="5" time="6"/>` +
			`<executed shares="7" price="8" time="9"/></status></results>`: {
			{Kind: "status", ID: "1", Canceled: "2", CanceledAt: "3", Executed: []Executed{{"4", "5", "6"}, {"7", "8", "9"}}}},
		`<results><canceled id="1"><canceled shares="2" time="3"/></canceled></results>`: {{Kind: "canceled", ID: "1",
			Canceled: "2", CanceledAt: "3"}},
	} {
		answers, err := ParseReply([]byte(reply))
		require.NoError(t, err, "%s", reply)
		require.Equal(t, want, answers, "%s", reply)
	}
}

func TestReplyThatIsNoneIsRefused(t *testing.T) {
	for reply, text := range map[string]string{
		``:                        "wire: reply: the document is empty",
		`<results>`:               "wire: reply: the document ends after 9 bytes, and <results> is not closed",
		`<create/>`:               "wire: reply: <create> is not a <results> of answers",
		`<results>text</results>`: "wire: reply: <results> is not a <results> of answers",
		`<results><created>1</created></results>`:                               "answer 1: <created> has no text in it",
		`<results><opened sym="A" amount="1" limit="2"/></results>`:             "answer 1: <opened> has no id",
		`<results><opened sym="" amount="" limit="" id="">1</opened></results>`: "answer 1: <opened> has no text in it",
		`<results><status/></results>`:                                          "answer 1: <status> has no id",
		`<results><status id="1"><open/></status></results>`:                    "answer 1: <open> has no shares",
		`<results><status id="1"><open shares="1">1</open></status></results>`:  "answer 1: <open> has no text in it",
		`<results><status id="1">` +
			`<executed shares="1" price="2"/></status></results>`: "answer 1: <executed> has no time",
		`<results><status id="1"><canceled shares="1"/></status></results>`: "answer 1: <canceled> has no time",
		`<results><status id="1"><open shares="1"/>` +
			`<canceled shares="1" time="1"/></status></results>`: "answer 1: <canceled> is not allowed in <status>",
		`<results><status id="1">` +
			`<open shares="1"/><open shares="1"/></status></results>`: "answer 1: <open> is not allowed in <status>",
		`<results>` +
			`<canceled id="1"><open shares="1"/></canceled></results>`: "answer 1: <open> is not allowed in <canceled>",
	} {
		answers, err := ParseReply([]byte(reply))
		require.ErrorContains(t, err, text, "%s", reply)
		require.Nil(t, answers)
	}
}

// TestAReplyMayTellMore: ParseReply ignores elements and attributes that only a newer exchange sends.
func TestAReplyMayTellMore(t *testing.T) {
	for reply, want := range map[string][]Answer{
		`<results n="1"/>`: {},
		`<results><created/><x a="1">2</x></results>`: {{Kind: "created"}},
		`<results><created id="1" fee="1"/><error time="1">no<b/></error></results>`: {{Kind: "created", ID: "1"},
			{Kind: "error", Error: "no"}},
		`<results><opened sym="A" amount="1" limit="2" id="3" x=""><fee dollars="1">0</fee></opened></results>`: {
			{Kind: "opened", Order: Order{Sym: "A", Amount: "1", Limit: "2"}, ID: "3"}},
		`<results><canceled id="1" x="2"><x/><canceled shares="1" time="2" y="3"/></canceled></results>`: {
			{Kind: "canceled", ID: "1", Canceled: "1", CanceledAt: "2"}},
	} {
		answers, err := ParseReply([]byte(reply))
		require.NoError(t, err, "%s", reply)
		require.Equal(t, want, answers, "%s", reply)
	}
}

// TestAnswersToInstructions parses answers that version 1 of the protocol does not have.
func TestAnswersToInstructions(t *testing.T) {
	part := func(name string, attrs ...string) Part {
		p := Part{Name: name}
		for i := 0; i < len(attrs); i += 2 {
			p.attrs = append(p.attrs, xml.Attr{Name: xml.Name{Local: attrs[i]}, Value: attrs[i+1]})
		}
		return p
	}
	for reply, want := range map[string]Answer{
		`<opened sym="A" amount="5" id="3"><canceled shares="2" time="7"/><executed shares="3" price="2" time="7"/>` +
			`<more/></opened>`: {Kind: "opened", Order: Order{Sym: "A", Amount: "5"}, ID: "3", Canceled: "2", CanceledAt: "7",
			Executed: []Executed{{"3", "2", "7"}}, More: true},
		`<status id="1"><canceled shares="2" time="7"/><replaced id="9"/><reduced shares="4" time="6"/></status>`: {
			Kind: "status", ID: "1", Canceled: "2", CanceledAt: "7", Replaced: "9", Reduced: "4", ReducedAt: "6"},
		`<amended id="1" amount="60"><open shares="60"/><reduced shares="40" time="6"/></amended>`: {Kind: "amended",
			Order: Order{Amount: "60"}, ID: "1", Open: "60", Reduced: "40", ReducedAt: "6"},
		`<amended ref="r" id="1" by="9" limit="3" newref="s"/>`: {Kind: "amended", Order: Order{Limit: "3", Ref: "r"},
			ID: "1", By: "9"},
		`<canceled-all sym="A" count="12"/>`: {Kind: "canceled-all", Order: Order{Sym: "A"}, Count: "12"},
		`<cancel-after seconds="60"/>`:       {Kind: "cancel-after", Seconds: "60"},
		`<account id="1" balance="7.5" held="0"><position sym="A" shares="3" held="1"/></account>`: {Kind: "account", ID: "1",
			Balance: "7.5", Held: "0", Parts: []Part{part("position", "sym", "A", "shares", "3", "held", "1")}},
		`<orders><order id="1" sym="A" amount="-5" limit="2" open="4" time="6"/><more after="1"/></orders>`: {Kind: "orders",
			Parts: []Part{part("order", "id", "1", "sym", "A", "amount", "-5", "limit", "2", "open", "4", "time", "6")},
			More:  true, After: "1"},
		`<fills/>`: {Kind: "fills"},
	} {
		answers, err := ParseReply([]byte("<results>" + reply + "</results>"))
		require.NoError(t, err, "%s", reply)
		require.Equal(t, []Answer{want}, answers, "%s", reply)
	}
	for reply, text := range map[string]string{
		`<canceled-all/>`:                          "answer 1: <canceled-all> has no count",
		`<amended id="1"><open/></amended>`:        "answer 1: <open> has no shares",
		`<fills><fill n="1"/></fills>`:             "answer 1: <fill> has no id",
		`<account id="1" balance="1"/>`:            "answer 1: <account> has no held",
		`<canceled-all count="1">2</canceled-all>`: "answer 1: <canceled-all> has no text in it",
	} {
		_, err := ParseReply([]byte("<results>" + reply + "</results>"))
		require.ErrorContains(t, err, text, "%s", reply)
	}
}

func TestElementsAreBuiltOfTheirAttributes(t *testing.T) {
	got := NewTransactions("1").Element("account").Element("orders", Attr{Name: "sym"}, Attr{Name: "after", Value: "7"}).
		Element("amend", Attr{Name: "ref", Value: `a"b`}).Append(nil)
	require.Equal(t, `<transactions id="1"><account/><orders after="7"/><amend ref="a&quot;b"/></transactions>`,
		string(got))
	require.Equal(t, `<create><symbol sym="A" tick="0.01"></symbol></create>`,
		string(new(Create).SymbolOf("A", "0.01", "").Append(nil)))
}

func TestReplyMayHaveAnyNumberOfElements(t *testing.T) {
	reply := `<results><status id="1">` + strings.Repeat(`<executed shares="1" price="2" time="3"/>`, ElementsMax+1) +
		`</status></results>`
	answers, err := ParseReply([]byte(reply))
	require.NoError(t, err)
	require.Len(t, answers[0].Executed, ElementsMax+1)
}

// FuzzParseReply: if ParseReply accepts a document, it returns one answer for each element, each of a known
// kind.
func FuzzParseReply(f *testing.F) {
	for _, transcript := range transcripts(f) {
		m := newMarket()
		for _, step := range transcript.Steps {
			if !step.Raw && len(step.Send) < 4<<10 {
				f.Add([]byte(m.answer(step.Send)))
			}
		}
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		answers, err := ParseReply(reply)
		if err != nil {
			require.Nil(t, answers)
			require.ErrorContains(t, err, "wire: reply: ")
			return
		}
		for _, a := range answers {
			require.Contains(t, answerKinds, a.Kind)
		}
	})
}
