package audit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLegal checks that ids may differ from the order of acceptance and that only the shares of
// executions are compared, while priority and the open and canceled shares matter.
func TestLegal(t *testing.T) {
	place := func(from, to int64, id uint64, amount, limit int64) LegalOp {
		return LegalOp{Sent: from, Answered: to, ID: id, Amount: amount, Limit: limit}
	}
	ask := func(from, to int64, id uint64, open, executed int64) LegalOp {
		return LegalOp{Sent: from, Answered: to, ID: id, Open: open, Executed: executed}
	}
	for name, c := range map[string]struct {
		ops  []LegalOp
		want bool
	}{
		"one after another": {[]LegalOp{place(1, 2, 1, -3, 10), place(3, 4, 2, 2, 11), ask(5, 6, 1, 1, 2),
			ask(7, 8, 2, 0, 2)}, true},
		"the earlier order has the later id": {[]LegalOp{place(1, 2, 2, -3, 10), place(3, 4, 1, 2, 11), ask(5, 6, 2, 1, 2)},
			true},
		"either of two at once came first": {[]LegalOp{place(1, 4, 1, -3, 10), place(2, 3, 2, -3, 10), place(5, 6, 3, 3, 10),
			ask(7, 8, 1, 3, 0), ask(9, 10, 2, 0, 3)}, true},
		"the one that came first waits": {[]LegalOp{place(1, 2, 1, -3, 10), place(3, 4, 2, -3, 10), place(5, 6, 3, 3, 10),
			ask(7, 8, 1, 3, 0), ask(9, 10, 2, 0, 3)}, false},
		"executed twice": {[]LegalOp{place(1, 9, 1, -3, 10), place(2, 9, 2, 3, 10), place(3, 9, 3, 3, 10),
			ask(10, 11, 2, 0, 3), ask(12, 13, 3, 0, 3)}, false},
		"not executed": {[]LegalOp{place(1, 9, 1, -3, 10), place(2, 9, 2, 3, 10), ask(10, 11, 1, 3, 0)}, false},
		"canceled twice": {[]LegalOp{place(1, 2, 1, -3, 10),
			{Sent: 3, Answered: 6, ID: 1, Cancel: true, Canceled: 3}, {Sent: 4, Answered: 5, ID: 1, Cancel: true, Canceled: 3}},
			false},
		"the second cancel is refused": {[]LegalOp{place(1, 2, 1, -3, 10),
			{Sent: 3, Answered: 6, ID: 1, Cancel: true, Canceled: 3},
			{Sent: 4, Answered: 5, ID: 1, Cancel: true, Refused: true}}, true},
	} {
		legal, known := Legal(c.ops, time.Minute)
		require.True(t, known, name)
		require.Equal(t, c.want, legal, name)
	}
}
