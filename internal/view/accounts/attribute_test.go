package accounts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/fieldtest"
)

// TestAnOpenOrderKeepsEveryFieldOfItsTerms checks the copy of the terms that the view keeps. A field that is missing
// there compiles, and would be lost from what accounts see.
func TestAnOpenOrderKeepsEveryFieldOfItsTerms(t *testing.T) {
	fieldtest.Each(t, exchange.Terms{Side: exchange.Buy, Limit: 6}, nil, func(name string, changed exchange.Terms) {
		o := order{limit: changed.Limit, instructions: changed.Instructions()}
		require.Equal(t, changed, o.terms(), "the view loses %s", name)
	})
}
