package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/fieldtest"
)

// TestAPublicOrderShowsEveryInstruction checks that each field of an order's terms changes what /api/v1/orders shows.
func TestAPublicOrderShowsEveryInstruction(t *testing.T) {
	plain := exchange.PublicOrder{}
	plain.Terms = exchange.Terms{Side: exchange.Buy, Limit: 6}
	fieldtest.Each(t, plain.Terms, nil, func(name string, changed exchange.Terms) {
		o := plain
		o.Terms = changed
		before, after := appendOrder(nil, 1, &plain, 0), appendOrder(nil, 1, &o, 0)
		require.NotEqual(t, string(before), string(after), "no member has %s", name)
	})
}
