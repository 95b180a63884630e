package client

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at returns a time from Unix seconds.
func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// TestInstructionsAndTheirAnswers sends each command that version 1 of the protocol lacks, and checks its
// result.
func TestInstructionsAndTheirAnswers(t *testing.T) {
	dec := MustDecimal
	full := buys(9).With(Instructions{TIF: IOC, Report: true})
	post := Sell("1", "SPY", Whole(2), Whole(9)).WithRef("r").
		With(Instructions{Post: true, STP: CancelOldest, COD: Cancels})
	bounded := BuyAtMarket("1", "SPY", Whole(3))
	bounded.Limit, bounded.TIF = Whole(7), FOK
	for _, each := range []struct {
		command       Command
		sent, answers string
		want          Result // its Command is set by the test
	}{
		{full, `<order sym="SPY" amount="1" limit="9" tif="IOC" report="full"/>`,
			`<opened sym="SPY" amount="1" limit="9" tif="IOC" report="full" id="5"><canceled shares="0.4" time="7"/>` +
				`<executed shares="0.6" price="8" time="7"/><more/></opened>`,
			Result{Order: 5, Status: Status{Order: 5, Canceled: dec("0.4"), CanceledAt: at(7), More: true,
				Executed: []Execution{{dec("0.6"), Whole(8), at(7)}}}}},
		{post, `<order sym="SPY" amount="-2" limit="9" post="yes" stp="oldest" cod="yes" ref="r"/>`,
			`<opened sym="SPY" amount="-2" limit="9" post="yes" stp="oldest" cod="yes" ref="r" id="5"/>`, Result{Order: 5}},
		{SellAtMarket("1", "SPY", Whole(3)), `<order sym="SPY" amount="-3" type="market"/>`,
			`<opened sym="SPY" amount="-3" type="market" id="5"/>`, Result{Order: 5}},
		{bounded, `<order sym="SPY" amount="3" limit="7" type="market" tif="FOK"/>`,
			`<opened sym="SPY" amount="3" limit="7" type="market" tif="FOK" id="5"/>`, Result{Order: 5}},
		{Amend("1", 7, Whole(-60), Decimal{}), `<amend id="7" amount="-60"/>`,
			`<amended id="7" amount="-60"><open shares="50"/><reduced shares="40" time="6"/></amended>`,
			Result{Order: 7, Status: Status{Order: 7, Open: Whole(50), Reduced: Whole(40), ReducedAt: at(6)}}},
		{AmendRef("1", "r", Decimal{}, dec("9.5")).WithNewRef("s").With(Instructions{Report: true}),
			`<amend ref="r" limit="9.5" report="full" newref="s"/>`,
			`<amended ref="r" id="7" by="9" limit="9.5" report="full" newref="s"><open shares="2"/></amended>`,
			Result{Order: 7, By: 9, Status: Status{Order: 9, Open: Whole(2)}}},
		{Query("1", 7), `<query id="7"/>`, `<status id="7"><canceled shares="2" time="7"/><replaced id="9"/>` +
			`<reduced shares="1" time="6"/></status>`, Result{Order: 7, Status: Status{Order: 7, Canceled: Whole(2),
			CanceledAt: at(7), Replaced: 9, Reduced: Whole(1), ReducedAt: at(6)}}},
		{CancelAll("1", "SPY"), `<cancel-all sym="SPY"/>`, `<canceled-all sym="SPY" count="12"/>`, Result{Count: 12}},
		{CancelAll("1", ""), `<cancel-all/><query id="0"/>`, `<canceled-all count="0"/><error id="0">no</error>`, Result{}},
		{CancelAfter("1", time.Minute), `<cancel-after seconds="60"/><query id="0"/>`,
			`<cancel-after seconds="60"/><error id="0">no</error>`, Result{}},
		{CancelAfter("1", 0), `<cancel-after seconds="0"/><query id="0"/>`,
			`<cancel-after seconds="0"/><error id="0">no</error>`, Result{}},
		{ShowAccount("1"), `<account/><query id="0"/>`, `<account id="1" balance="0.0000000000000001" held="2.5">` +
			`<position sym="SPY" shares="3" held="0"/></account><error id="0">no</error>`,
			Result{Account: &Account{ID: "1", Balance: "0.0000000000000001", Held: "2.5",
				Positions: []Position{{Symbol: "SPY", Shares: Whole(3)}}}}},
		{ListOrders("1", "SPY", 6), `<orders sym="SPY" after="6"/>`, `<orders sym="SPY" after="6"><order id="7" sym="SPY" ` +
			`amount="-5" limit="9.5" post="yes" stp="both" cod="yes" open="4" time="6"/><more after="7"/></orders>`,
			Result{More: true, After: 7, Orders: []OpenOrder{{Order: 7, Symbol: "SPY", Side: KindSell, Shares: Whole(5),
				Limit: dec("9.5"), Open: Whole(4), Time: at(6), Instructions: Instructions{Post: true, STP: CancelBoth,
					COD: Cancels}}}}},
		{ListOrders("1", "SPY", 6), `<orders sym="SPY" after="6"/>`, `<orders sym="SPY" after="6"><more after="8"/></orders>`,
			Result{More: true, After: 8}},
		{ListFills("1", 3), `<fills after="3"/><query id="0"/>`,
			`<fills after="3"><more after="1003"/></fills><error id="0">no</error>`, Result{More: true, After: 1003}},
		{ListFills("1", Newest), `<fills/><query id="0"/>`, `<fills/><error id="0">no</error>`, Result{}},
		{ListFills("1", 0), `<fills after="0"/><query id="0"/>`,
			`<fills after="0"><fill n="1" id="7" sym="SPY" side="sell" shares="4" price="9.5" time="6"/></fills>` +
				`<error id="0">no</error>`, Result{Fills: []Fill{{N: 1, Order: 7,
				Symbol: "SPY", Side: KindSell, Shares: Whole(4), Price: dec("9.5"), Time: at(6)}}}},
		{MakeSymbolOf("SPY", dec("0.01"), Decimal{}), `<create><symbol sym="SPY" tick="0.01"></symbol></create>`,
			`<created sym="SPY" tick="0.01"/>`, Result{}},
	} {
		inBubble(t, func(t *testing.T) {
			var sent frames
			c := open(t, played(t, Options{}, func(p *peer) {
				xml, _ := p.readFrame()
				sent.add(xml)
				p.say(each.answers)
				silent(p)
			}))
			results := answered(t, send(t, c, each.command))
			want := each.sent
			if each.command.Kind != KindMakeSymbol {
				want = `<transactions id="1">` + want + `</transactions>`
			}
			require.Equal(t, []string{want}, sent.all())
			each.want.Command = each.command
			require.Equal(t, []Result{each.want}, results)
		})
	}
	require.Equal(t, big.NewRat(1, 4), Cash("0.25").Rat())
}

// TestAnswersMayTellMore: unknown elements and attributes of a newer exchange are ignored.
func TestAnswersMayTellMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, func(p *peer) {
			p.readFrame()
			p.say(`<opened sym="SPY" amount="1" limit="9" fee="0.1" id="5"><venue name="x"/></opened><notice/>`)
			p.readFrame()
			p.say(`<status id="5" fee="0.1"><open shares="1" hidden="0"/><queue place="7"/></status>`)
			silent(p)
		}))
		require.EqualValues(t, 5, answered(t, send(t, c, buys(9)))[0].Order)
		require.Equal(t, Whole(1), answered(t, send(t, c, Query("1", 5)))[0].Status.Open)
	})
}

// TestARefusalOfABareElementIsNoLastWord: an error for an element without attributes has no attributes either, and
// must not be mistaken for the last words of a stopping exchange.
func TestARefusalOfABareElementIsNoLastWord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{RetryTime: -1}, func(p *peer) {
			p.readFrame()
			p.say(`<error>there is no account 1</error><error id="0">no</error>`)
			p.readFrame()
			p.say(`<error>the exchange is stopping</error>`)
		}))
		_, err := c.Account(background, "1")
		var refused *Refused
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "there is no account 1", refused.Text)
		_, err = c.CancelAll(background, "1", "")
		require.ErrorAs(t, err, new(*LastWords))
		require.True(t, MaybeDone(err))
	})
}

// TestWhatIsNoViewIsAProtocolError: a malformed answer is a protocol error.
func TestWhatIsNoViewIsAProtocolError(t *testing.T) {
	second := CancelAfter("1", time.Second)
	orders, fills := ListOrders("1", "", 5), ListFills("1", 5)
	for answer, command := range map[string]Command{
		`<account id="1" balance="1e3" held="0"/>`:                                                ShowAccount("1"),
		`<account id="2" balance="1" held="0"/>`:                                                  ShowAccount("1"),
		`<account id="1" balance="1" held="0"><position sym="A" shares="-1" held="0"/></account>`: ShowAccount("1"),
		`<orders><order id="0" sym="A" amount="1" limit="1" open="1" time="1"/></orders>`:         ListOrders("1", "", 0),
		`<orders><order id="1" sym="A" amount="x" limit="1" open="1" time="1"/></orders>`:         ListOrders("1", "", 0),
		`<fills><fill n="1" id="1" sym="A" side="x" shares="1" price="1" time="1"/></fills>`:      ListFills("1", 0),
		`<fills><fill n="1" id="1" sym="A" side="buy" shares="1" price="1" time="x"/></fills>`:    ListFills("1", 0),
		`<orders><more/></orders>`:                   orders,
		`<orders><more after="x"/></orders>`:         orders,
		`<orders><more after="4"/></orders>`:         orders,
		`<orders><more after="5"/></orders>`:         orders, // following this page would never end
		`<fills after="5"><more after="5"/></fills>`: fills,
		`<fills><more after="0"/></fills>`:           ListFills("1", Newest),
		`<canceled-all count="-1"/>`:                 CancelAll("1", ""),
		`<cancel-after seconds="2"/>`:                second,
	} {
		inBubble(t, func(t *testing.T) {
			c := open(t, played(t, Options{RetryTime: -1}, func(p *peer) {
				p.readFrame()
				p.say(answer + `<error id="0">no</error>`)
				silent(p)
			}))
			_, err := c.Do(background, command)
			require.ErrorAs(t, err, new(*ProtocolError), answer)
		})
	}
}

// TestAnAmendWithItsOwnRefIsSentAgain, like an order with a ref. An amend without a ref is not resent, and
// neither are cancels of everything.
func TestAnAmendWithItsOwnRefIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var again frames
		c := open(t, played(t, Options{}, func(p *peer) {
			for range 6 {
				p.readFrame()
			}
		}, func(p *peer) {
			for _, answer := range []string{`<amended id="7" by="9" amount="5" newref="s"/>`,
				`<account id="1" balance="1" held="0"/><error id="0">no</error>`} {
				xml, _ := p.readFrame()
				again.add(xml)
				p.say(answer)
			}
			silent(p)
		}))
		bare := send(t, c, Amend("1", 7, Whole(5), Decimal{}))
		byRef := send(t, c, AmendRef("1", "r", Whole(5), Decimal{}))
		named := send(t, c, Amend("1", 7, Whole(5), Decimal{}).WithNewRef("s"))
		all := send(t, c, CancelAll("1", ""))
		after := send(t, c, CancelAfter("1", time.Second))
		view := send(t, c, ShowAccount("1"))
		for _, call := range []*Call{bare, byRef, all, after} {
			require.True(t, broken(t, call).MaybeDone)
		}
		require.EqualValues(t, 9, answered(t, named)[0].By)
		require.NotNil(t, answered(t, view)[0].Account)
		require.Equal(t, []string{`<transactions id="1"><amend id="7" amount="5" newref="s"/></transactions>`,
			`<transactions id="1"><account/><query id="0"/></transactions>`}, again.all())
	})
}

func TestAutoRefNamesAmends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{AutoRef: true}, silent))
		require.Regexp(t, `^[A-Z2-7]{26}$`, send(t, c, Amend("1", 7, Whole(5), Decimal{})).Commands()[0].NewRef)
	})
}

// TestEveryConnectionSaysThatItCancels: each connection, including those after a reconnect, first requests cancel on
// disconnect.
func TestEveryConnectionSaysThatItCancels(t *testing.T) {
	const asked = `<session cancel="disconnect" timeout="5"/>`
	inBubble(t, func(t *testing.T) {
		var sent frames
		play := func(p *peer) {
			xml, _ := p.readFrame()
			sent.add(xml)
			p.say(asked)
			xml, _ = p.readFrame()
			sent.add(xml)
			p.say(status("7"))
		}
		c := open(t, played(t, Options{CancelOnDisconnect: true, SilenceTime: 5 * time.Second}, play))
		for range 2 {
			_, err := c.Query(background, "1", 7)
			require.NoError(t, err)
		}
		query := `<transactions id="1"><query id="7"/></transactions>`
		require.Equal(t, []string{asked, query, asked, query}, sent.all())
	})
	for answer, want := range map[string]any{
		`<error>unknown root element &lt;session&gt;</error>`: new(*LastWords),
		``: new(*ProtocolError),
	} {
		inBubble(t, func(t *testing.T) {
			_, err := Dial(background, "exchange:1", played(t, Options{CancelOnDisconnect: true}, func(p *peer) {
				p.readFrame()
				p.say(answer)
				silent(p)
			}))
			require.ErrorAs(t, err, want)
			require.ErrorContains(t, err, "cancel on disconnect")
		})
	}
}

// TestAllPagesOfOrdersAreRead requests pages until the last one.
func TestAllPagesOfOrdersAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		order := func(id string) string {
			return `<order id="` + id + `" sym="A" amount="1" limit="1" open="1" time="1"/>`
		}
		var sent frames
		c := open(t, played(t, Options{}, func(p *peer) {
			for _, answer := range []string{`<orders>` + order("3") + order("4") + `<more after="4"/></orders>`,
				`<orders after="4"><more after="7"/></orders>`, // a page without orders of the symbol
				`<orders after="7">` + order("9") + `</orders>`} {
				xml, _ := p.readFrame()
				sent.add(xml)
				p.say(answer + `<error id="0">no</error>`)
			}
			silent(p)
		}))
		orders, err := c.Orders(background, "1", "")
		require.NoError(t, err)
		require.Len(t, orders, 3)
		require.EqualValues(t, 9, orders[2].Order)
		require.Equal(t, `<transactions id="1"><orders after="4"/><query id="0"/></transactions>`, sent.all()[1])
		require.Equal(t, `<transactions id="1"><orders after="7"/><query id="0"/></transactions>`, sent.all()[2])
	})
}
