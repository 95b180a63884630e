package audit

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"outcry/internal/door/xml/wire"
)

// Most orders have a ref. What its client has no answer to is sent again, on the next
// connection or after the restart: the exchange must not do it a second time, which the
// order's serial number shows, and what it answers must be what it answered at first.

const (
	againMax  = 500 // answered orders of a round that are sent again after it
	againOld  = 100 // and of earlier rounds
	otherEach = 10  // one in so many is sent with other content as well
)

// unavailable is in the answer to a ref that only Postgres knows, while that is away.
const unavailable = "does not answer now"

// give gives an order a ref of its own.
func (o *sentOrder) give() { o.ref = fmt.Sprintf("torture:%d", serial(o.amount)) }

// unread keeps the orders of frames that were sent whole and whose reply will not come,
// so that they are sent again.
func (c *client) unread(frames []*frame) {
	for _, f := range frames {
		for _, command := range f.commands {
			if o := command.order; o != nil && o.ref != "" && o.fate == sent {
				c.lost = append(c.lost, o)
			}
		}
	}
}

// again picks an order to be sent again: one without an answer, or one with.
func (c *client) again() (k kind, o *sentOrder) {
	if n := len(c.lost); n > 0 {
		o = c.lost[n-1]
		c.lost = c.lost[:n-1]
		return retry, o
	}
	if len(c.told) > 0 && c.r.IntN(6) == 0 {
		return repeat, c.told[c.r.IntN(len(c.told))]
	}
	return place, nil
}

// noteRetry takes in the answer to an order that was sent again since it had none. If
// it is refused, what came before may still be on its way: nothing is known then.
func (h *history) noteRetry(o *sentOrder, a *wire.Answer) {
	h.counts.Retried++
	switch {
	case a.Kind == "error" && (o.mayRefuse(a.Error) || h.noRoomNow(a)):
		h.counts.Errors[kindOf(a.Error)]++
	case o.id > 0 || o.done: // it was found in the tables, or answered to another retry
		h.noteRepeat(o, a)
	default:
		h.noteOrder(o, a)
	}
}

// noteRepeat takes in the answer to an order that was sent again although it was answered.
func (h *history) noteRepeat(o *sentOrder, a *wire.Answer) {
	h.counts.Repeated++
	want := &wire.Answer{Kind: "opened", Order: o.element(), ID: fmt.Sprint(o.id)}
	if o.first != nil {
		want = o.first
	}
	switch {
	case a.Kind == "error" && strings.Contains(a.Error, unavailable):
		h.counts.Errors[kindOf(a.Error)]++
	case o.first != nil && !reflect.DeepEqual(want, a),
		o.first == nil && !o.amends() && (a.Kind != want.Kind || a.Order != want.Order || a.ID != want.ID):
		h.complainLocked("order %d is answered again with %+v, and not with %+v", o.id, *a, *want)
	case o.first == nil:
		o.first = a
	}
}

// RetryAll sends every order again that has a ref and no answer; then those that have
// one, the newest of the round and some older ones, and asks for them by their refs. The
// exchange is up, and no client trades.
func (s *Session) RetryAll(ctx context.Context) error {
	lost, told := s.history.withRefs()
	if err := s.sendAgain(ctx, lost, retry); err != nil {
		return err
	}
	slices.SortFunc(told, func(a, b *sentOrder) int { return cmp.Compare(b.id, a.id) })
	told = told[:min(len(told), againMax)]
	for range min(againOld, len(s.oldSent)) {
		told = append(told, s.oldSent[s.Rand.IntN(len(s.oldSent))])
	}
	if err := s.sendAgain(ctx, told, repeat); err != nil {
		return err
	}
	if wrong := s.history.complaints(); len(wrong) > 0 {
		return fmt.Errorf("a client that sends again sees: %s", wrong[0])
	}
	return nil
}

// withRefs returns the orders that have refs: those that were sent whole and have no
// answer, and those that have one.
func (h *history) withRefs() (lost, told []*sentOrder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.orders {
		switch {
		case o.ref == "":
		case o.fate == sent:
			lost = append(lost, o)
		case o.fate == answered:
			told = append(told, o)
		}
	}
	return lost, told
}

// sendAgain sends orders again, one account's in a frame.
func (s *Session) sendAgain(ctx context.Context, orders []*sentOrder, k kind) error {
	byAccount := func(a, b *sentOrder) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(serial(a.amount), serial(b.amount)))
	}
	slices.SortFunc(orders, byAccount)
	var frames [][]byte
	var sent [][]command
	for len(orders) > 0 {
		t, commands := wire.NewTransactions(orders[0].account), []command(nil)
		account := orders[0].account
		for ; len(orders) > 0 && orders[0].account == account && len(commands) < queryBatch; orders = orders[1:] {
			o := orders[0]
			o.add(t)
			commands = append(commands, command{kind: k, order: o})
			if k == repeat && serial(o.amount)%otherEach == 0 && !o.amends() && o.kind == "" {
				t.OrderRef(o.sym, decimal(o.amount), decimal(o.limit+priceTick), o.ref).QueryRef(o.ref)
				commands = append(commands, command{kind: other, order: o}, command{kind: byRef, order: o})
			}
		}
		frames, sent = append(frames, t.Append(nil)), append(sent, commands)
	}
	replies, err := askAll(ctx, s.At, frames)
	if err != nil {
		return err
	}
	for n, answers := range replies {
		s.history.note(&frame{xml: frames[n], commands: sent[n]}, answers)
	}
	return nil
}

// noteOther takes in the answer to another order with a ref that is used.
func (h *history) noteOther(o *sentOrder, a *wire.Answer) {
	if a.Kind != "error" || !strings.Contains(a.Error, "has used ref") && !strings.Contains(a.Error, unavailable) {
		h.complainLocked("order %d's ref is taken for another order: %+v", o.id, *a)
	}
}

// noteByRef takes in the answer to a query of an order by its ref.
func (h *history) noteByRef(o *sentOrder, a *wire.Answer) {
	if a.Kind == "error" && strings.Contains(a.Error, unavailable) {
		return
	}
	if a.Kind != "status" || number(a.ID) < o.id || a.Ref != o.ref { // a later one may have replaced it
		h.complainLocked("order %d is asked for by its ref %s, and answered with %+v", o.id, o.ref, *a)
	}
}
