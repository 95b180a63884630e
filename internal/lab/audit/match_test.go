package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// sentStory returns four sent orders: one that was answered and canceled after an execution, one that was
// rejected, one without an answer, and one whose frame was cut.
func sentStory() (h *knowledge, settled, no, unknown, cut *sentOrder) {
	h = newKnowledge(nil)
	answer := func(o *sentOrder, a wire.Answer) {
		a.Sym, a.Amount, a.Limit = o.sym, decimal(o.amount), decimal(o.limit)
		h.recordOrder(o, &a)
	}
	settled = h.order("1", "S", 3, unit)
	answer(settled, wire.Answer{Kind: "opened", ID: "7"})
	h.recordStatus(command{kind: cancel, id: 7},
		&wire.Answer{Kind: "canceled", ID: "7", Canceled: "2.00000001", CanceledAt: "9",
			Executed: []wire.Executed{{Shares: "1", Price: "1", Time: "8"}}})
	no = h.order("1", "S", 3, unit)
	answer(no, wire.Answer{Kind: "error", Error: "insufficient funds"})
	unknown = h.order("1", "S", -3, unit)
	cut = h.order("1", "S", 3, unit)
	h.mark(&frame{orders: []*sentOrder{cut}}, cutOff)
	return h, settled, no, unknown, cut
}

// inTables returns an order as the tables should show it.
func inTables(id uint64, s *sentOrder) *order {
	return &order{instructions: s.inEffect(), id: id, account: s.account, sym: s.sym, amount: s.amount, limit: s.limit}
}

func TestHistoryMatchesTheTables(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(settled *order, no, unknown, cut *sentOrder) []*order // returns the orders in the tables
	}{
		{"all is well", "", func(o *order, _, unknown, _ *sentOrder) []*order { return []*order{o, inTables(8, unknown)} }},
		{"the unanswered never was", "", func(o *order, _, _, _ *sentOrder) []*order { return []*order{o} }},
		{"an answered order is lost", "is lost", func(*order, *sentOrder, *sentOrder, *sentOrder) []*order { return nil }},
		{"a refused order is there", "was answered with a rejection", func(o *order, no, _, _ *sentOrder) []*order {
			return []*order{o, inTables(9, no)}
		}},
		{"an order of a cut frame is there", "never complete", func(o *order, _, _, cut *sentOrder) []*order {
			return []*order{o, inTables(9, cut)}
		}},
		{"an order is there twice", "one order is in the tables twice", func(o *order, _, unknown, _ *sentOrder) []*order {
			return []*order{o, inTables(8, unknown), inTables(9, unknown)}
		}},
		{"an order that nobody sent", "never sent", func(o *order, _, _, _ *sentOrder) []*order {
			return []*order{o, {id: 9, account: "1", sym: "S", amount: unit + 99, limit: unit}}
		}},
		{"another account", "was sent as", func(o *order, _, _, _ *sentOrder) []*order {
			o.account = "2"
			return []*order{o}
		}},
		{"another limit", "was sent as", func(o *order, _, _, _ *sentOrder) []*order { o.limit++; return []*order{o} }},
		{"another id", "in the tables twice", func(o *order, _, _, _ *sentOrder) []*order { o.id = 6; return []*order{o} }},
		{"an execution is lost", "was answered as having executed", func(o *order, _, _, _ *sentOrder) []*order {
			o.executed = nil
			return []*order{o}
		}},
		{"an execution changed", "was answered as having executed", func(o *order, _, _, _ *sentOrder) []*order {
			o.executed[0].Price = "2"
			return []*order{o}
		}},
		{"executed after its cancel", "was answered as canceled", func(o *order, _, _, _ *sentOrder) []*order {
			o.executed = append(o.executed, o.executed[0])
			return []*order{o}
		}},
		{"the cancel is lost", "was answered as canceled", func(o *order, _, _, _ *sentOrder) []*order {
			o.canceled, o.canceledAt = 0, ""
			return []*order{o}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, settled, no, unknown, cut := sentStory()
			o := inTables(7, settled)
			o.canceled, o.canceledAt, o.executed = 2*unit+1, "9", []wire.Executed{{Shares: "1", Price: "1", Time: "8"}}
			truth := newTruth()
			for _, o := range c.change(o, no, unknown, cut) {
				truth.orders[o.id], truth.touched[o.id] = o, true
			}
			err := h.match(truth)
			require.Empty(t, h.complaints())
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, h.match(truth), "a second look finds the same")
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAnOrderThatWasGivenUpMustNotTurnUp(t *testing.T) {
	h, _, _, unknown, _ := sentStory()
	delete(h.orders, 1)
	truth := newTruth()
	require.NoError(t, h.match(truth))
	require.EqualValues(t, 1, h.figures().UnknownNever)
	truth.orders[8], truth.touched[8] = inTables(8, unknown), true
	require.ErrorContains(t, h.match(truth), "given up")
}

func TestHistoryComplainsOfWrongAnswers(t *testing.T) {
	for name, note := range map[string]func(*knowledge){
		"another order's echo": func(h *knowledge) {
			h.recordOrder(h.order("1", "S", 1, unit), &wire.Answer{Kind: "opened", Order: wire.Order{Sym: "S", Amount: "1",
				Limit: "1"}, ID: "9"})
		},
		"an id twice": func(h *knowledge) {
			o := h.order("1", "S", 1, unit)
			h.recordOrder(o, &wire.Answer{Kind: "opened", Order: wire.Order{Sym: "S", Amount: decimal(o.amount), Limit: "1"},
				ID: "7"})
		},
		"a known order is unknown": func(h *knowledge) {
			h.recordStatus(command{kind: query, id: 7}, &wire.Answer{Kind: "error", ID: "7", Error: "there is no order 7"})
		},
		"another order's status": func(h *knowledge) {
			h.recordStatus(command{kind: query, id: 7}, &wire.Answer{Kind: "status", ID: "8"})
		},
		"a change after the cancel": func(h *knowledge) {
			h.recordStatus(command{kind: query, id: 7}, &wire.Answer{Kind: "status", ID: "7", Canceled: "1", CanceledAt: "9"})
		},
		"answers are missing": func(h *knowledge) {
			h.recordAnswers(&frame{commands: make([]command, 2)}, make([]wire.Answer, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, _, _, _, _ := sentStory()
			note(h)
			require.NotEmpty(t, h.complaints())
		})
	}
}

func TestAccountsAreMatchedToo(t *testing.T) {
	for _, c := range []struct {
		name, want string
		fate       fate
		opened     func(a *sentAccount) []string
		placed     func(a *sentAccount) []string
	}{
		{"all is well", "", answered, nil, nil},
		{"unanswered, and there", "", sent, nil, nil},
		{"lost", "lost", answered, func(*sentAccount) []string { return nil }, func(*sentAccount) []string { return nil }},
		{"its shares are lost", "lost", answered, nil, func(*sentAccount) []string { return nil }},
		{"refused, and there", "refused", refused, nil, nil},
		{"another balance", "was opened with", answered, func(a *sentAccount) []string { return []string{a.id + " 1"} }, nil},
		{"other shares", "were placed", answered, nil, func(a *sentAccount) []string { return []string{a.id + " S 1"} }},
		{"of nobody", "never requested", answered, func(a *sentAccount) []string { return []string{"9999999999 1"} }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newKnowledge(nil)
			a := h.account("S")
			a.opened, a.placed = c.fate, c.fate
			opened, placed := []string{a.id + " " + decimal(a.balance)}, []string{a.id + " S " + decimal(a.shares)}
			if c.opened != nil {
				opened = c.opened(a)
			}
			if c.placed != nil {
				placed = c.placed(a)
			}
			err := h.matchAccounts(newTruth(), opened, placed)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
