package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// TestWhatMayRefuseAnOrder checks that only an order with a ref may be rejected because Postgres is down.
func TestWhatMayRefuseAnOrder(t *testing.T) {
	const away = "what ref R was used for is in the database, which does not answer now; nothing was done, try again later"
	for _, test := range []struct {
		ref, text string
		may       bool
	}{
		{"R", away, true},
		{"", away, false},
		{"R", "insufficient funds", true},
		{"", "insufficient shares", true},
		{"R", "account 1 has used ref R for something else", false},
	} {
		h := newKnowledge(nil)
		o := h.order("1", "S", 3, unit)
		o.ref = test.ref
		h.recordOrder(o, &wire.Answer{Kind: "error", Order: wire.Order{Sym: o.sym, Amount: decimal(o.amount),
			Limit: decimal(o.limit), Ref: o.ref}, Error: test.text})
		require.Equal(t, test.may, len(h.complaints()) == 0, "%q: %s", test.ref, test.text)
		require.Equal(t, refused, o.fate)
	}
}
