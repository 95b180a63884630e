package exchange

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestARefHasAGrammar(t *testing.T) {
	for _, s := range []string{"a", "0", "A.z_9:-", "order-2026:11:21.1", strings.Repeat("x", RefCharsMax)} {
		ref, err := ParseRef([]byte(s))
		require.NoError(t, err)
		require.Equal(t, Ref(s), ref)
	}
	for s, want := range map[string]string{
		"":                                 `ref "" is not 1 to 64 characters`,
		strings.Repeat("x", RefCharsMax+1): `ref "xxx`,
		"a b":                              `ref "a b" has a character other than`,
		"a/b":                              "has a character", "é": "has a character", "a\x00": "has a character",
		"a@": "has a character", "[": "has a character", "`": "has a character", "{": "has a character",
	} {
		_, err := ParseRef(s)
		require.ErrorContains(t, err, want)
	}
}

// TestUsesAreComparedAsValues: what a command would use its ref for is what its event
// has used it for, and nothing else is.
func TestUsesAreComparedAsValues(t *testing.T) {
	order := Command{Kind: PlaceOrder, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 6}, Shares: 5}
	uses := map[string]RefUse{}
	for name, c := range map[string]Command{
		"an order":         order,
		"a sell":           {Kind: PlaceOrder, Account: "1", Symbol: "A", Terms: Terms{Side: Sell, Limit: 6}, Shares: 5},
		"other shares":     {Kind: PlaceOrder, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 6}, Shares: 6},
		"another limit":    {Kind: PlaceOrder, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 5}, Shares: 5},
		"another symbol":   {Kind: PlaceOrder, Account: "1", Symbol: "B", Terms: Terms{Side: Buy, Limit: 6}, Shares: 5},
		"a placement":      {Kind: DepositShares, Account: "1", Symbol: "A", Deposited: Position{Lo: 5}},
		"a larger one":     {Kind: DepositShares, Account: "1", Symbol: "A", Deposited: Position{Hi: 1, Lo: 5}},
		"one of B":         {Kind: DepositShares, Account: "1", Symbol: "B", Deposited: Position{Lo: 5}},
		"an account":       {Kind: OpenAccount, Account: "1", Balance: Cash{Lo: 5}},
		"a richer account": {Kind: OpenAccount, Account: "1", Balance: Cash{Hi: 5}},
	} {
		for other, use := range uses {
			require.False(t, use.Same(c.Use()), "%s and %s", name, other)
		}
		uses[name] = c.Use()
		require.True(t, c.Kind.Makes())
	}
	event := Event{Kind: OrderAccepted, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 6}, Shares: 5, Order: 7,
		Fills: []Fill{{Resting: 1, Shares: 1, Price: 5}}}
	require.True(t, event.Use().Same(order.Use()))
	require.Equal(t, OrderID(7), event.Use().Order)
	placement := Event{Kind: SharesDeposited, Symbol: "A", Account: "1", Deposited: Position{Lo: 5}}
	require.Equal(t, uses["a placement"], placement.Use())
	opening := Event{Kind: AccountOpened, Account: "1", Balance: Cash{Lo: 5}}
	require.Equal(t, uses["an account"], opening.Use())
	require.False(t, QueryOrder.Makes() || CancelOrder.Makes() || MakeSymbol.Makes() || ShowOrder.Makes())
}

// TestRefsAreFoundUntilTheirGenerationIsDropped compares with a map of all.
func TestRefsAreFoundUntilTheirGenerationIsDropped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, accounts := NewRefs(), []*Account{{ID: "1"}, {ID: "2"}}
		type used struct {
			use        RefUse
			generation uint64
		}
		all, seq := map[refKey]used{}, uint64(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := refKey{rapid.SampledFrom(accounts).Draw(t, "account"), Ref(rapid.StringMatching(`[a-f]{1,2}`).Draw(t, "ref"))}
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				x.Seal(seq)
			case 1:
				if x.First() < x.Last() {
					x.Drop()
				}
			default:
				if _, found := x.Find(key.account, key.ref); found {
					break
				}
				seq++
				require.True(t, x.Claim(key.account, key.ref))
				require.False(t, x.Claim(key.account, key.ref), "it is claimed")
				if rapid.Bool().Draw(t, "withdrawn") {
					x.Withdraw(key.account, key.ref)
					break
				}
				use := RefUse{Kind: PlaceOrder, Order: OrderID(seq)}
				x.Add(key.account, key.ref, use)
				all[key] = used{use, x.Last()}
			}
			require.Empty(t, x.claims)
			held := 0
			for key, was := range all {
				use, found := x.Find(key.account, key.ref)
				require.Equal(t, was.generation >= x.First(), found)
				since := rapid.Uint64Range(0, x.Last()+1).Draw(t, "since")
				_, foundSince := x.FindSince(key.account, key.ref, since)
				require.Equal(t, was.generation >= max(x.First(), since), foundSince)
				if found {
					held++
					require.Equal(t, was.use, use)
				}
			}
			require.Equal(t, held, x.Len())
			for number := x.First(); number < x.Last(); number++ {
				keys, last := x.Sealed(number)
				require.LessOrEqual(t, last, seq)
				for key := range keys {
					a := accounts[key.Account[0]-'1']
					require.Equal(t, number, all[refKey{a, key.Ref}].generation)
					require.LessOrEqual(t, uint64(all[refKey{a, key.Ref}].use.Order), last)
				}
			}
		}
	})
	require.Panics(t, NewRefs().Drop)
}

// TestReplayBringsRefsBack, and refuses one that is used twice.
func TestReplayBringsRefsBack(t *testing.T) {
	events := []Event{
		{Kind: AccountOpened, Account: "1", Balance: dollars(t, "100"), Ref: "a"},
		{Kind: SymbolMade, Symbol: "S"},
		{Kind: SharesDeposited, Symbol: "S", Account: "1", Deposited: Position{Lo: 9}, Ref: "b"},
		{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Sell, Limit: 2}, Order: 5, Shares: 3, Ref: "c"},
		{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Sell, Limit: 2}, Order: 6, Shares: 3},
	}
	s := NewState()
	replay(t, s, events)
	a := s.Ledger.Account("1")
	require.Equal(t, 3, s.Refs.Len())
	for _, e := range events {
		if e.Ref != "" {
			use, found := s.Refs.Find(a, e.Ref)
			require.True(t, found)
			require.Equal(t, e.Use(), use)
		}
	}
	for _, ref := range []Ref{"a", "b", "c"} {
		again := Event{Kind: OrderAccepted, Account: "1", Symbol: "S", Terms: Terms{Side: Sell, Limit: 2}, Order: 7,
			Shares: 3, Ref: ref}
		before := dump(s)
		require.ErrorContains(t, s.Apply(&again), "ref "+string(ref)+" of account 1 used a second time")
		require.Equal(t, before, dump(s))
	}
	s.ForgetClosed(&events[3])
	require.Zero(t, s.Refs.Len())
}
