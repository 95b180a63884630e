package binance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/fieldtest"
)

// TestAnOrderShowsEveryFieldOfItsTerms checks that each field changes a member of the answer about the order.
func TestAnOrderShowsEveryFieldOfItsTerms(t *testing.T) {
	plain := exchange.OrderDetail{ID: 1, Symbol: "A", Open: 5}
	plain.Side, plain.Limit = exchange.Buy, 6
	fieldtest.Each(t, plain.Terms, nil, func(name string, changed exchange.Terms) {
		o := plain
		o.Terms = changed
		require.NotEqual(t, string(appendOrder(nil, &plain)), string(appendOrder(nil, &o)), "no member has %s", name)
	})
}
