package model

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// trading returns an exchange with four orders: 1 and 2 executed against each
// other, 3 is a canceled buy, 4 and 5 rest.
func trading(t *testing.T) *Exchange {
	t.Helper()
	x := New()
	x.Do([]byte(`<create><account id="1" balance="100"/><account id="2" balance="0"/><symbol sym="A">`+
		`<account id="2">50</account></symbol></create>`), 7)
	x.Do([]byte(`<transactions id="2"><order sym="A" amount="-4.5" limit="2"/></transactions>`), 8)
	x.Do([]byte(`<transactions id="1"><order sym="A" amount="4.5" limit="3"/>`+
		`<order sym="A" amount="1" limit="1"/><cancel id="3"/><order sym="A" amount="10" limit="1.5"/></transactions>`), 9)
	x.Do([]byte(`<transactions id="2"><order sym="A" amount="-20" limit="5"/></transactions>`), 10)
	require.NoError(t, x.Check())
	return x
}

func TestStateIsShownInExactDecimals(t *testing.T) {
	x := trading(t)
	require.Equal(t, map[string]Holding{"1": {"76", "15"}, "2": {"9", "0"}}, x.Cash())
	require.Equal(t, map[[2]string]Holding{{"A", "1"}: {"4.5", "0"}, {"A", "2"}: {"25.5", "20"}}, x.Shares())
	executions := []Execution{{"4.5", "2", 9}}
	require.Equal(t, []Order{
		{ID: 1, Account: "2", Sym: "A", Amount: "-4.5", Limit: "2", Open: "0", Executed: "4.5", Canceled: "0",
			Reduced: "0", Type: "limit", TIF: "GTC", Time: 8,
			Executions: executions},
		{ID: 2, Account: "1", Sym: "A", Amount: "4.5", Limit: "3", Open: "0", Executed: "4.5", Canceled: "0",
			Reduced: "0", Type: "limit", TIF: "GTC", Time: 9,
			Executions: executions},
		{ID: 3, Account: "1", Sym: "A", Amount: "1", Limit: "1", Open: "0", Executed: "0", Canceled: "1",
			Reduced: "0", Type: "limit", TIF: "GTC", Time: 9,
			CanceledAt: 9},
		{ID: 4, Account: "1", Sym: "A", Amount: "10", Limit: "1.5", Open: "10", Executed: "0", Canceled: "0",
			Reduced: "0", Type: "limit", TIF: "GTC", Time: 9},
		{ID: 5, Account: "2", Sym: "A", Amount: "-20", Limit: "5", Open: "20", Executed: "0", Canceled: "0",
			Reduced: "0", Type: "limit", TIF: "GTC", Time: 10},
	}, x.Orders())
}

// TestCheckFindsWhatIsWrong damages a correct exchange in one way at a time.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	one, minusOne := tenTo(8), new(big.Int).Neg(tenTo(8))
	for name, spoil := range map[string]func(x *Exchange){
		"account 1 has":       func(x *Exchange) { x.accounts["1"].balance = minusOne },
		"account 2 has -1 of": func(x *Exchange) { x.accounts["2"].shares["A"] = minusOne },
		"in cash of": func(x *Exchange) {
			x.accounts["1"].balance = sum(x.accounts["1"].balance, big.NewInt(1))
		},
		"shares of":                            func(x *Exchange) { add(x.accounts["1"].shares, "A", big.NewInt(1)) },
		"beyond its limit":                     func(x *Exchange) { x.orders[0].limit = tenTo(9) },
		"order 2 of":                           func(x *Exchange) { x.orders[1].open = one },
		"order 3 of":                           func(x *Exchange) { x.orders[2].canceled = nil },
		"order 4 of":                           func(x *Exchange) { x.orders[3].canceled = one },
		"2 orders for A are open, but 1 rest":  func(x *Exchange) { x.resting["A"] = x.resting["A"][:1] },
		"order 5 stands where order 4 belongs": func(x *Exchange) { r := x.resting["A"]; r[0], r[1] = r[1], r[0] },
		"orders 4 and 5 are open and match": func(x *Exchange) {
			// The limit of a sell moves no cash, so only the book is wrong.
			x.orders[4].limit = x.orders[3].limit
		},
	} {
		x := trading(t)
		spoil(x)
		require.ErrorContains(t, x.Check(), name)
	}
}

func TestNormalizeLeavesWhatIsNotFree(t *testing.T) {
	for reply, want := range map[string]string{
		`<results/>`: `<results/>`,
		`<results><error id="7">what &lt;was&gt; wrong</error></results>`: `<results><error id="7">*</error></results>`,
		`<results><error>a</error><error sym="A&gt;" id="">b</error></results>`: `<results><error>*</error>` +
			`<error sym="A&gt;" id="">*</error></results>`,
		`<results><error id="7"></error></results>`: `<results><error id="7"></error></results>`,
		`<canceled id="1"><canceled shares="5" time="12"/><executed shares="1" price="2" time="34"/></>`: `<canceled ` +
			`id="1">` +
			`<canceled shares="5" time="T"/><executed shares="1" price="2" time="T"/></>`,
		`<executed shares="1" price="2" time=""/>`: `<executed shares="1" price="2" time=""/>`,
	} {
		require.Equal(t, want, Normalize([]byte(reply)))
	}
}

func TestTextsAreThoseOfErrors(t *testing.T) {
	require.Equal(t, []string{"a < b", `"c"`},
		Texts([]byte(`<results><error id="7">a &lt; b</error>`+
			`<created id="1"/><error>&quot;c&quot;</error><error></error></results>`)))
	require.Empty(t, Texts([]byte(`<results/>`)))
}

// TestDecimalsAreReadAsWritten compares the model's decimals with a second implementation.
func TestDecimalsAreReadAsWritten(t *testing.T) {
	for _, s := range []string{"0", "1", "-1", "+1", ".5", "5.", "-.5", "+0.50", "007.10", "-0", "0.00000001",
		"89999999999.99999999", "1.00000000"} {
		v, err := decimal(s, orderBound)
		require.NoError(t, err, s)
		want, ok := new(big.Rat).SetString(s)
		require.True(t, ok, s)
		require.Zero(t, want.Cmp(new(big.Rat).SetFrac(v, tenTo(8))), s)
		shown, ok := new(big.Rat).SetString(show(v))
		require.True(t, ok, s)
		require.Zero(t, want.Cmp(shown), s)
		require.False(t, strings.Contains(show(v), ".") && strings.HasSuffix(show(v), "0"), show(v))
	}
	for _, s := range []string{"", ".", "+", "-", "--1", "1.000000000", "1e3", "0x1", "1_0", " 1", "1 ", "1.2.3", "NaN",
		"Inf", "１", "90000000000", "-90000000000"} {
		_, err := decimal(s, orderBound)
		require.Error(t, err, s)
	}
}
