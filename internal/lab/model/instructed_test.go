package model

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answer executes one <transactions> of an account and returns the normalized content of <results>.
func answer(t *testing.T, x *Exchange, account, children string) string {
	t.Helper()
	reply := Normalize(x.Do(fmt.Appendf(nil, `<transactions id="%s">%s</transactions>`, account, children), 1))
	require.NoError(t, x.Check())
	return strings.TrimSuffix(strings.TrimPrefix(reply, "<results>"), "</results>")
}

// fresh returns an exchange in which accounts 1 to 3 each have 1000 dollars and 100 shares of A.
func fresh(t *testing.T) *Exchange {
	t.Helper()
	x := New()
	for id := 1; id <= 3; id++ {
		x.Do(fmt.Appendf(nil, `<create><account id="%d" balance="1000"/><symbol sym="A"><account id="%d">100</account>`+
			`</symbol></create>`, id, id), 1)
	}
	return x
}

// outcome summarizes a reply to an order: how much is open (o), canceled (c) and executed (x), or that it
// was rejected.
func outcome(reply string) (s string) {
	if strings.HasPrefix(reply, "<error") {
		return "refused"
	}
	for _, m := range strings.Split(reply, "<") {
		for name, letter := range map[string]string{"open ": "o", "canceled ": "c", "executed ": "x"} {
			if rest, ok := strings.CutPrefix(m, name+`shares="`); ok {
				s += letter + rest[:strings.IndexByte(rest, '"')] + " "
			}
		}
	}
	return strings.TrimSpace(s)
}

// TestTimesInForce tests times in force, self-trade prevention and halts. Account 1 buys 10 at 5; account
// 1 sells 2 at 3 and account 2 sells 4 at 4.
func TestTimesInForce(t *testing.T) {
	for _, c := range []struct{ tif, stp, buy, own string }{
		{"GTC", "", "o4 x2 x4", "x2"},
		{"GTC", "newest", "c10", "o2"},
		{"GTC", "oldest", "o6 x4", "c2"},
		{"GTC", "both", "c10", "c2"},
		{"IOC", "", "c4 x2 x4", "x2"},
		{"IOC", "newest", "c10", "o2"},
		{"IOC", "oldest", "c6 x4", "c2"},
		{"IOC", "both", "c10", "c2"},
		{"FOK", "", "refused", "o2"},
		{"FOK", "newest", "refused", "o2"},
		{"FOK", "oldest", "refused", "o2"},
		{"FOK", "both", "refused", "o2"},
	} {
		for _, halted := range []bool{false, true} {
			x := fresh(t)
			answer(t, x, "1", `<order sym="A" amount="-2" limit="3"/>`)
			answer(t, x, "2", `<order sym="A" amount="-4" limit="4"/>`)
			order := fmt.Sprintf(`<order sym="A" amount="10" limit="5" tif="%s" report="full" stp="%s"/>`, c.tif, c.stp)
			order = strings.Replace(order, ` stp=""`, "", 1)
			buy, own := c.buy, c.own
			if halted {
				x.Halt("A")
				buy, own = "refused", "o2"
			}
			require.Equal(t, buy, outcome(answer(t, x, "1", order)), "%v, halted %v", c, halted)
			require.Equal(t, own, outcome(answer(t, x, "1", `<query id="1"/>`)), "%v, halted %v", c, halted)
		}
	}
}

// TestFillOrKillCountsWhatWouldExecute checks that an FOK order computes exactly how much it would execute, counting
// only orders that self-trade prevention lets it reach.
func TestFillOrKillCountsWhatWouldExecute(t *testing.T) {
	for stp, most := range map[string]string{"": "6", "newest": "", "oldest": "4", "both": ""} {
		for amount, want := range map[string]string{most: "x", most + ".00000001": "refused", "0.00000001": "x"} {
			x := fresh(t)
			answer(t, x, "1", `<order sym="A" amount="-2" limit="3"/>`)
			answer(t, x, "2", `<order sym="A" amount="-4" limit="4"/>`)
			if most == "" {
				amount, want = "1", "refused"
			}
			order := fmt.Sprintf(`<order sym="A" amount="%s" limit="5" tif="FOK" report="full" stp="%s"/>`, amount, stp)
			reply := answer(t, x, "1", strings.Replace(order, ` stp=""`, "", 1))
			require.Regexp(t, "^"+want, outcome(reply), "%s %s: %s", stp, amount, reply)
			require.Equal(t, want == "refused", len(x.orders) == 2, "a refused order has no id")
		}
	}
}

// TestSelfTradeMeetsOwnOrders combines the modes, the position of the account's own order among three orders of other
// accounts (first, in the middle, last, worse than the limit), and the times in force.
func TestSelfTradeMeetsOwnOrders(t *testing.T) {
	for _, c := range []struct {
		stp, place, buy, own string
		fok                  string // outcome of an FOK order, if different from the others
	}{
		{"newest", "2.9", "c30", "o5", "refused"},
		{"newest", "3.5", "c20 x10", "o5", "refused"},
		{"newest", "4.5", "c10 x10 x10", "o5", "refused"},
		{"newest", "6", "c10 x10 x10", "o5", "refused"},
		{"oldest", "2.9", "c10 x10 x10", "c5", "refused"},
		{"oldest", "3.5", "c10 x10 x10", "c5", "refused"},
		{"oldest", "4.5", "c10 x10 x10", "c5", "refused"},
		{"oldest", "6", "c10 x10 x10", "o5", "refused"},
		{"both", "2.9", "c30", "c5", "refused"},
		{"both", "3.5", "c20 x10", "c5", "refused"},
		{"both", "4.5", "c10 x10 x10", "c5", "refused"},
		{"both", "6", "c10 x10 x10", "o5", "refused"},
	} {
		for _, tif := range []string{"GTC", "IOC", "FOK", "market"} {
			x := fresh(t)
			answer(t, x, "1", `<order sym="A" amount="-5" limit="`+c.place+`"/>`)
			for _, limit := range []string{"3", "4", "7"} {
				answer(t, x, "2", `<order sym="A" amount="-10" limit="`+limit+`"/>`)
			}
			buy, own := c.buy, c.own
			kind := ` tif="` + tif + `"`
			switch {
			case tif == "FOK":
				buy, own = c.fok, "o5"
			case tif == "market":
				kind = ` type="market"`
			case tif == "GTC" && (c.stp == "oldest" || c.place == "6"):
				buy = "o10 x10 x10" // self-trade prevention does not cancel the buy, so its last 10 shares stay open
			}
			order := fmt.Sprintf(`<order sym="A" amount="30" limit="5"%s stp="%s" report="full"/>`, kind, c.stp)
			reply := answer(t, x, "1", order)
			require.Equal(t, buy, outcome(reply), "%v %s", c, tif)
			require.Equal(t, own, outcome(answer(t, x, "1", `<query id="1"/>`)), "%v %s", c, tif)
		}
	}
}

// TestFreedHoldsDoNotPayForTheOrderThatFreesThem checks that an account whose cash is held by its own
// buys cannot sell itself shares that it lacks.
func TestFreedHoldsDoNotPayForTheOrderThatFreesThem(t *testing.T) {
	x := fresh(t)
	answer(t, x, "1", `<order sym="A" amount="-100" limit="5"/>`)
	require.Equal(
		t,
		"refused",
		outcome(answer(t, x, "1", `<order sym="A" amount="-1" limit="6" tif="IOC" stp="oldest"/>`)),
	)
	require.Equal(t, "refused", outcome(answer(t, x, "1", `<order sym="A" amount="201" limit="5" stp="oldest"/>`)))
	require.Equal(
		t,
		"o200",
		outcome(answer(t, x, "1", `<order sym="A" amount="200" limit="5" stp="oldest" report="full"/>`)),
	)
	require.Equal(t, "c100", outcome(answer(t, x, "1", `<query id="1"/>`)))
}

// TestMarketOrdersStopAtTheProtectionPrice checks that nothing executes one unit beyond the protection
// price.
func TestMarketOrdersStopAtTheProtectionPrice(t *testing.T) {
	for _, c := range []struct {
		best, last, further string
		protect             *big.Int
	}{
		{"10", "11", "11.00000001", nil},
		{"0.00000011", "0.00000012", "0.00000013", nil}, // 0.000000121 is rounded towards the best price
		{"10", "10.5", "10.50000001", big.NewInt(5_000_000)},
		{"10", "10.0000001", "10.00000011", big.NewInt(1)},
	} {
		for _, sign := range []string{"", "-"} {
			x := fresh(t)
			require.NoError(t, x.SetSymbolRules("A", SymbolRules{Protect: c.protect}))
			limits, other := []string{c.further, c.last, c.best}, "-"
			if sign == "-" { // the same distance below the best price
				limits, other = nil, ""
				for _, limit := range []string{c.further, c.last, c.best} {
					v, err := decimal(limit, orderBound)
					require.NoError(t, err)
					best, err := decimal(c.best, orderBound)
					require.NoError(t, err)
					limits = append(limits, show(minus(best, minus(v, best))))
				}
			}
			for _, limit := range limits {
				require.NotContains(
					t,
					answer(t, x, "2", `<order sym="A" amount="`+other+`1" limit="`+limit+`"/>`),
					"error",
				)
			}
			reply := answer(t, x, "1", `<order sym="A" amount="`+sign+`3" type="market" report="full"/>`)
			require.Equal(t, "c1 x1 x1", outcome(reply), "%v %s", c, sign)
		}
	}
}

// TestAMarketBuyNeedsWhatItsExecutionsCost checks the cost to the last unit, and that nothing is released
// afterwards.
func TestAMarketBuyNeedsWhatItsExecutionsCost(t *testing.T) {
	for balance, want := range map[string]string{"99.9999": "refused", "100": "c5 x1 x9", "100.0001": "c5 x1 x9"} {
		x := fresh(t)
		x.Do([]byte(`<create><account id="9" balance="`+balance+`"/></create>`), 1)
		answer(t, x, "2", `<order sym="A" amount="-1" limit="10"/><order sym="A" amount="-9" limit="10"/>`)
		reply := answer(t, x, "9", `<order sym="A" amount="15" type="market" report="full"/>`)
		require.Equal(t, want, outcome(reply), balance)
	}
}

// TestBoundsAreBounds checks that at each bound an order is accepted, and one unit above it is rejected.
func TestBoundsAreBounds(t *testing.T) {
	for what, set := range map[string]func(x *Exchange){
		`<order sym="A" amount="%s" limit="5"/> 7 7.00000001`: func(x *Exchange) {
			x.SetAccountRules("1", AccountRules{SharesMax: product(big.NewInt(7), tenTo(8))})
		},
		`<order sym="A" amount="%s" limit="5" tif="IOC"/> 7 7.00000001`: func(x *Exchange) {
			x.SetAccountRules("1", AccountRules{NotionalMax: product(big.NewInt(35), tenTo(16))})
		},
		`<order sym="A" amount="%s" type="market"/> 7 7.00000001`: func(x *Exchange) { // notional of executions
			x.SetAccountRules("1", AccountRules{NotionalMax: product(big.NewInt(21), tenTo(16))})
		},
		`<order sym="A" amount="%s" limit="4" type="market"/> 7 7.00000001`: func(x *Exchange) { // notional at its limit
			x.SetAccountRules("1", AccountRules{NotionalMax: product(big.NewInt(28), tenTo(16))})
		},
		`<order sym="A" amount="1" limit="%s"/> 3.3 3.30000001`: func(x *Exchange) {
			require.NoError(t, x.SetSymbolRules("A", SymbolRules{Band: tenTo(7)}))
		},
		`<order sym="A" amount="-1" limit="%s"/> 2.7 2.69999999`: func(x *Exchange) {
			require.NoError(t, x.SetSymbolRules("A", SymbolRules{Band: tenTo(7)}))
		},
		`<order sym="A" amount="1" limit="%s"/> 2.5 2.50000001`: func(x *Exchange) {
			require.NoError(t, x.SetSymbolRules("A", SymbolRules{Tick: product(big.NewInt(5), tenTo(7))}))
		},
		`<order sym="A" amount="%s" limit="1"/> 2.5 2.49999999`: func(x *Exchange) {
			require.NoError(t, x.SetSymbolRules("A", SymbolRules{Lot: product(big.NewInt(5), tenTo(7))}))
		},
		`<order sym="A" amount="%s" limit="9"/> -99 -98.5`: func(x *Exchange) { // all remaining shares, and no more
			require.NoError(t, x.SetSymbolRules("A", SymbolRules{Lot: product(big.NewInt(2), tenTo(8))}))
		},
	} {
		fields := strings.Fields(what)
		order, at, above := strings.Join(fields[:len(fields)-2], " "), fields[len(fields)-2], fields[len(fields)-1]
		for _, value := range []string{at, above} {
			x := fresh(t)
			answer(t, x, "1", `<order sym="A" amount="-1" limit="3"/>`)
			answer(t, x, "3", `<order sym="A" amount="1" limit="3"/><order sym="A" amount="-50" limit="3"/>`)
			set(x)
			reply := answer(t, x, "1", fmt.Sprintf(order, value))
			require.Equal(t, value == above, strings.HasPrefix(reply, "<error"), "%s at %s: %s", order, value, reply)
		}
	}
}

// TestOpenOrdersAreBounded checks that the bound rejects orders that may rest, whether or not they would, but not
// amends and other orders.
func TestOpenOrdersAreBounded(t *testing.T) {
	x := fresh(t)
	x.SetAccountRules("1", AccountRules{OpenMax: 2})
	answer(t, x, "2", `<order sym="A" amount="-1" limit="3"/>`)
	two := `<order sym="A" amount="1" limit="1"/>`
	require.NotContains(t, answer(t, x, "1", two+two), "error")
	require.Contains(t, answer(t, x, "1", two), "error")
	require.Contains(t, answer(t, x, "1", `<order sym="A" amount="1" limit="3"/>`), "error", "it would execute at once")
	require.NotContains(
		t,
		answer(t, x, "1", `<amend id="2" amount="2"/><order sym="A" amount="1" limit="3" tif="IOC"/>`),
		"error",
	)
}

// TestBlockedAccountsOnlyCancel checks that a blocked account's orders and amends, reductions included,
// are rejected, and that a used ref is still answered.
func TestBlockedAccountsOnlyCancel(t *testing.T) {
	x := fresh(t)
	answer(t, x, "1", `<order sym="A" amount="5" limit="1" ref="a"/>`)
	require.Equal(t, map[string]Canceled{"A": {1, "5"}}, x.Block("1", 1))
	require.Equal(t, `<opened sym="A" amount="5" limit="1" ref="a" id="1"/>`,
		answer(t, x, "1", `<order sym="A" amount="5" limit="1" ref="a"/>`))
	require.Contains(t, answer(t, x, "1", `<order sym="A" amount="5" limit="1" ref="b"/>`), "error")
	x.Unblock("1")
	require.NotContains(t, answer(t, x, "1", `<order sym="A" amount="5" limit="1" ref="b"/>`), "error")
}

// TestAHaltedSymbolReducesAndDoesNotReplace checks that amends in a halted symbol may reduce an order,
// and that a rejected replacement changes nothing.
func TestAHaltedSymbolReducesAndDoesNotReplace(t *testing.T) {
	x := fresh(t)
	answer(t, x, "1", `<order sym="A" amount="5" limit="1"/>`)
	x.Halt("A")
	require.Contains(t, answer(t, x, "1", `<amend id="1" amount="6"/>`), "error")
	require.Contains(t, answer(t, x, "1", `<amend id="1" limit="0.5"/>`), "error")
	require.Equal(t, `<amended id="1" amount="4"><open shares="4"/><reduced shares="1" time="T"/></amended>`,
		answer(t, x, "1", `<amend id="1" amount="4"/>`))
}

// TestAConnectionTakesItsOrdersWithIt checks that the end of a connection cancels its orders and their
// replacements, and no orders of other connections.
func TestAConnectionTakesItsOrdersWithIt(t *testing.T) {
	x := fresh(t)
	c := x.Connect()
	do := func(s string) { c.Do([]byte(s), 1) }
	const two = `<transactions id="1"><order sym="A" amount="1" limit="1"/>`
	do(two + `<order sym="A" amount="1" limit="1" cod="yes"/></transactions>`)
	do(`<session cancel="disconnect"/>`)
	do(two + `<order sym="A" amount="1" limit="1" cod="no"/></transactions>`)
	answer(t, x, "1", `<amend id="2" limit="2"/>`)
	answer(t, x, "1", `<order sym="A" amount="1" limit="1" cod="yes"/>`)
	c.Close(1)
	require.Equal(t, "o1", outcome(answer(t, x, "1", `<query id="1"/>`)))
	require.Equal(t, "c1", outcome(answer(t, x, "1", `<query id="3"/>`)))
	require.Equal(t, "o1", outcome(answer(t, x, "1", `<query id="4"/>`)))
	require.Equal(t, "c1", outcome(answer(t, x, "1", `<query id="5"/>`)), "it replaced one of the connection")
	require.Equal(t, "o1", outcome(answer(t, x, "1", `<query id="6"/>`)), "of another connection")
}

// TestASwitchPassesOnce checks that a switch cancels once, at its time, the orders open then.
func TestASwitchPassesOnce(t *testing.T) {
	x := fresh(t)
	answer(t, x, "1", `<cancel-after seconds="10"/><order sym="A" amount="1" limit="1"/>`)
	x.Pass(10)
	require.Equal(t, "o1", outcome(answer(t, x, "1", `<query id="1"/>`)))
	x.Pass(11)
	require.Equal(t, "c1", outcome(answer(t, x, "1", `<query id="1"/><order sym="A" amount="1" limit="1"/>`)))
	x.Pass(12)
	require.Equal(t, "o1", outcome(answer(t, x, "1", `<query id="2"/>`)))
}
