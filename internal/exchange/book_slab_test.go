package exchange

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlotsAreUsedAgainAndEmptyPagesGiven(t *testing.T) {
	r := testRand(t)
	const most, pages = 20_000, 20_000/slabPage + recentMax + 1
	var s slab
	taken := map[slot]OrderID{}
	for _, leave := range []int{100, 0, 7000, 0} {
		for len(taken) < most {
			i := s.alloc()
			n := s.at(i)
			if _, twice := taken[i]; twice || i == 0 || n.id != 0 || *s.executions(i) != nil {
				t.Fatalf("slot %d: taken %t, order %d, executions %v", i, twice, n.id, *s.executions(i))
			}
			taken[i] = OrderID(1 + r.Uint64N(1e6))
			if n.id = taken[i]; n.id%2 == 0 {
				n.flags, *s.executions(i) = executed, make([]Execution, n.id%3)
			} else {
				n.flags = 0
			}
		}
		require.LessOrEqual(t, len(s.pages), pages)
		for i, v := range taken { // in random order
			if n := s.at(i); n.id != v || n.has(executed) && len(*s.executions(i)) != int(v%3) {
				t.Fatalf("slot %d has changed", i)
			}
			s.release(i, s.at(i))
			if delete(taken, i); len(taken) == leave {
				break
			}
		}
		kept := 0
		for _, p := range s.pages {
			if p != nil {
				kept++
			}
		}
		require.LessOrEqual(t, kept, leave+recentMax+1, "empty pages are given back")
	}
}

func TestAccountsAreFoundAndListedInTheirOrder(t *testing.T) {
	l := NewLedger()
	var ids []AccountID
	for i := range 3000 {
		frame := fmt.Sprint("<account id=", i*i, ">")
		id := AccountID(frame[12 : len(frame)-1])
		require.Nil(t, l.Account(id))
		l.Open(id, Notional(Shares(i), 1))
		ids = append(ids, id)
	}
	require.Equal(t, 3000, l.Accounts())
	for i, id := range ids {
		require.Equal(t, id, l.Account(id).ID)
		require.Equal(t, Notional(Shares(i), 1), l.Account(id).balance)
	}
	require.Nil(t, l.Account("x"))
	var listed []AccountID
	for a := range l.accounts.all() {
		if listed = append(listed, a.ID); len(listed) == 10 {
			l.Open("y", Cash{})
		}
	}
	require.Equal(t, append(slices.Clone(ids), "y"), listed, "including ids added during the iteration")
}

// TestExecutionsDoNotKeepOthersInMemory checks which memory the execution lists use after a long sweep: the lists
// of the sweep, of an order that it closed, and of one that stayed open.
func TestExecutionsDoNotKeepOthersInMemory(t *testing.T) {
	b := NewBook()
	const resting = 500
	for id := range OrderID(resting) {
		b.Submit(NewOrder(id+1, ann, Sell, 10, 5), 0, nil)
	}
	sweep := NewOrder(resting+1, bob, Buy, 10*resting-3, 5)
	require.Len(t, b.Submit(sweep, 7, nil), resting)
	last, _ := b.Find(resting)
	require.Equal(t, []Execution{{7, 5, 7}}, last.Executions)
	require.NotSame(t, &sweep.Executions[resting-1], &last.Executions[0], "it stays open and has its own list")
	closed, _ := b.Find(resting - 1)
	require.Same(t, &sweep.Executions[resting-2], &closed.Executions[0], "it is forgotten with the sweep")
	require.Empty(t, cap(b.executions.chunk), "the long list is not shared")

	b.Submit(NewOrder(resting+2, bob, Buy, 1, 5), 8, nil) // a second execution of the order that stayed open
	again, _ := b.Find(resting)
	require.Equal(t, []Execution{{7, 5, 7}, {1, 5, 8}}, again.Executions)
	require.Equal(t, []Execution{{7, 5, 7}}, last.Executions)
	require.LessOrEqual(t, cap(b.executions.chunk), executionsChunk)
	require.NoError(t, b.Check())
}
