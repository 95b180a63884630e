package exchange

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// halt halts a symbol as the engine does for an operator.
func (d *shard) halt(s Symbol, reason string) RejectReason {
	switch b := d.Books[s]; {
	case b == nil:
		return UnknownSymbol
	case b.Halt(&Halt{Since: d.now, Reason: reason}) == nil:
		d.record(Event{Kind: SymbolHalted, Symbol: s, Reason: reason})
	}
	return OK
}

func (d *shard) resume(s Symbol) RejectReason {
	switch b := d.Books[s]; {
	case b == nil:
		return UnknownSymbol
	case b.Resume() != nil:
		d.record(Event{Kind: SymbolResumed, Symbol: s})
	}
	return OK
}

// cancelAll cancels all open orders of an account in the given symbols.
func (d *shard) cancelAll(id AccountID, symbols ...Symbol) (cancels []Cancel, r RejectReason) {
	a := d.Ledger.Account(id)
	if a == nil {
		return nil, UnknownAccount
	}
	for _, s := range symbols {
		if d.Books[s] == nil {
			continue
		}
		for o := range d.Books[s].OpenOf(a) {
			cancels = append(cancels, Cancel{o.ID, s, Terms{Side: o.Side, Limit: o.Limit}, o.Open})
		}
	}
	if len(cancels) == 0 {
		return nil, OK
	}
	slices.SortFunc(cancels, func(a, b Cancel) int { return a.Compare(&b) })
	for _, c := range cancels {
		o, r := d.Books[c.Symbol].Cancel(c.Order, id, d.now)
		if r != OK || o.Canceled != c.Shares {
			return nil, r
		}
		d.Ledger.Release(d.Ledger.Instrument(c.Symbol), &o)
	}
	d.record(Event{Kind: OrdersCanceled, Account: id, Cancels: cancels})
	return cancels, OK
}

func anyReason() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringOfN(rapid.RuneFrom([]rune("az AZ09.\"<é漢🙂")), 0, HaltReasonCharsMax, -1).Draw(t, "reason")
		return s
	})
}

func anyCancels(symbols *rapid.Generator[string], order *rapid.Generator[int64]) *rapid.Generator[[]Cancel] {
	one := rapid.Custom(func(t *rapid.T) Cancel {
		return Cancel{Order: OrderID(rapid.Uint64Range(1, math.MaxInt64).Draw(t, "order")),
			Symbol: Symbol(symbols.Draw(t, "symbol")),
			Terms:  Terms{Side: rapid.SampledFrom([]Side{Buy, Sell}).Draw(t, "side"), Limit: Price(order.Draw(t, "limit"))},
			Shares: Shares(order.Draw(t, "shares"))}
	})
	return rapid.Custom(func(t *rapid.T) []Cancel {
		all := rapid.SliceOfNDistinct(one, 1, 20,
			func(c Cancel) Cancel { return Cancel{Order: c.Order, Symbol: c.Symbol} }).Draw(t, "cancels")
		slices.SortFunc(all, func(a, b Cancel) int { return a.Compare(&b) })
		return all
	})
}

func TestReasonsAreOneLineOfText(t *testing.T) {
	for _, good := range []string{"", "news is out", strings.Repeat("漢", HaltReasonCharsMax)} {
		got, err := ParseHaltReason(good)
		require.NoError(t, err)
		require.Equal(t, good, got)
	}
	for bad, want := range map[string]string{
		strings.Repeat("x", HaltReasonCharsMax+1): "has more than 200 characters",
		"two\nlines":   `reason "two\nlines" has a character that cannot be printed`,
		"\x1b[2J":      "cannot be printed",
		"not \xff":     "is not UTF-8",
		"\ufffe":       "cannot be printed",
		"a\u202ebc":    "cannot be printed",
		"no\u00a0wrap": "cannot be printed",
	} {
		_, err := ParseHaltReason(bad)
		require.ErrorContains(t, err, want)
	}
}

// TestACancelAllIsTheCancelsOfItsOrders compares a state in which one event canceled
// several orders with one in which each was canceled by itself.
func TestACancelAllIsTheCancelsOfItsOrders(t *testing.T) {
	s := newRandomSession(testRand(t))
	s.run(500)
	one, each := NewState(), NewState()
	replay(t, one, s.events)
	replay(t, each, s.events)
	for _, id := range s.accounts {
		before := len(s.events)
		cancels, _ := s.cancelAll(id, s.symbols...)
		if len(s.events) == before {
			require.Empty(t, cancels)
			continue
		}
		replay(t, one, s.events[before:])
		for i := range cancels {
			replay(t, each, []Event{s.events[before].Cancel(i)})
		}
	}
	for _, st := range []*State{s.State, one, each} {
		require.NoError(t, st.Audit())
		for _, book := range st.Books {
			require.Zero(t, book.Resting(), "every account's orders were canceled")
		}
	}
	require.Equal(t, dump(s.State), dump(one))
	require.Equal(t, dump(one), dump(each))
	require.NotZero(t, len(one.Books))
}

// TestDecodeDoesNotBelieveACountOfCancels checks that a few bytes cannot claim gigabytes
// of cancels or of a reason's text.
func TestDecodeDoesNotBelieveACountOfCancels(t *testing.T) {
	var got Event
	for _, n := range []uint64{1, 1000, math.MaxInt32, math.MaxInt64, math.MaxUint64} {
		claim := append(binary.AppendUvarint([]byte{byte(OrdersCanceled), 0, 1, '1'}, n), 1, 1, 'S', 1, 1)
		require.ErrorContains(t, DecodeEvent(claim, &got), "cut short")
		require.Empty(t, got.Cancels)
		claim = append(binary.AppendUvarint([]byte{byte(SymbolHalted), 0, 1, 'S'}, n+1), 'x')
		if n < math.MaxUint64 {
			require.ErrorContains(t, DecodeEvent(claim, &got), "cut short")
		}
	}
}
