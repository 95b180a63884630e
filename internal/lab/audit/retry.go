package audit

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// Most orders have a ref. An order without an answer is sent again on the next connection or after the
// restart. The exchange must not execute it a second time, which the serial number would reveal, and each
// retry must get the first answer.

const (
	againMax  = 500 // answered orders of a round that are sent again after it
	againOld  = 100 // answered orders of earlier rounds that are sent again
	otherEach = 10  // one in this many is also sent with other content
)

// give gives an order its own ref.
func (o *sentOrder) give() { o.ref = fmt.Sprintf("torture:%d", serial(o.amount)) }

// unread keeps the orders of completely sent frames whose replies will not arrive, so that they are sent
// again.
func (c *client) unread(frames []*frame) {
	for _, f := range frames {
		for _, command := range f.commands {
			if o := command.order; o != nil && o.ref != "" && o.fate == sent {
				c.lost = append(c.lost, o)
			}
		}
	}
}

// again picks an order to send again: an unanswered or an answered one.
func (c *client) again() (k kind, o *sentOrder) {
	if n := len(c.lost); n > 0 {
		o = c.lost[n-1]
		c.lost = c.lost[:n-1]
		return retry, o
	}
	if len(c.accepted) > 0 && c.r.IntN(6) == 0 {
		return repeat, c.accepted[c.r.IntN(len(c.accepted))]
	}
	return place, nil
}

// recordRetry records the answer to the retry of an unanswered order. A rejection proves nothing: the first attempt
// may still be in transit.
func (h *knowledge) recordRetry(o *sentOrder, a *wire.Answer) {
	h.counts.Retried++
	switch {
	case a.Kind == "error" && (o.mayRefuse(a.Error) || h.noRoomNow(a)):
		h.counts.Errors[kindOf(a.Error)]++
	case o.id > 0 || o.done: // the order was found in the tables, or another retry was answered
		h.recordRepeat(o, a)
	default:
		h.recordOrder(o, a)
	}
}

// recordRepeat records the answer to an answered order that was sent again.
func (h *knowledge) recordRepeat(o *sentOrder, a *wire.Answer) {
	h.counts.Repeated++
	want := &wire.Answer{Kind: "opened", Order: o.element(), ID: fmt.Sprint(o.id)}
	if o.first != nil {
		want = o.first
	}
	switch {
	case a.Kind == "error" && rejectedFor(a.Error, exchange.RefUnavailable, exchange.HistoryUnavailable):
		h.counts.Errors[kindOf(a.Error)]++
	case o.first != nil && !reflect.DeepEqual(want, a),
		o.first == nil && !o.amends() && (a.Kind != want.Kind || a.Order != want.Order || a.ID != want.ID):
		h.complainLocked("order %d is answered again with %+v instead of %+v", o.id, *a, *want)
	case o.first == nil:
		o.first = a
	}
}

// RetryAll sends again every unanswered order that has a ref, then the newest answered orders of the
// round and some older ones, and queries those by their refs. The exchange must be up and no client may
// be trading.
func (s *Session) RetryAll(ctx context.Context) error {
	lost, settled := s.history.withRefs()
	if err := s.sendAgain(ctx, lost, retry); err != nil {
		return err
	}
	slices.SortFunc(settled, func(a, b *sentOrder) int { return cmp.Compare(b.id, a.id) })
	settled = settled[:min(len(settled), againMax)]
	for range min(againOld, len(s.oldSent)) {
		settled = append(settled, s.oldSent[s.Rand.IntN(len(s.oldSent))])
	}
	if err := s.sendAgain(ctx, settled, repeat); err != nil {
		return err
	}
	if wrong := s.history.complaints(); len(wrong) > 0 {
		return fmt.Errorf("a client that retries sees: %s", wrong[0])
	}
	return nil
}

// withRefs returns the completely sent orders that have refs: the unanswered ones and the answered ones.
func (h *knowledge) withRefs() (lost, settled []*sentOrder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.orders {
		switch {
		case o.ref == "":
		case o.fate == sent:
			lost = append(lost, o)
		case o.fate == answered:
			settled = append(settled, o)
		}
	}
	return lost, settled
}

// sendAgain sends orders again, one frame for each account.
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
		s.history.recordAnswers(&frame{xml: frames[n], commands: sent[n]}, answers)
	}
	return nil
}

// recordOther records the answer to another order with a used ref.
func (h *knowledge) recordOther(o *sentOrder, a *wire.Answer) {
	if a.Kind != "error" || !rejectedFor(a.Error, exchange.RefUsed, exchange.RefUnavailable) {
		h.complainLocked("order %d's ref is accepted for another order: %+v", o.id, *a)
	}
}

// recordByRef records the answer to a query by ref.
func (h *knowledge) recordByRef(o *sentOrder, a *wire.Answer) {
	if a.Kind == "error" && rejectedFor(a.Error, exchange.RefUnavailable, exchange.HistoryUnavailable) {
		return
	}
	if a.Kind != "status" || number(a.ID) < o.id || a.Ref != o.ref { // a later order may have replaced it
		h.complainLocked("order %d is queried by its ref %s, and answered with %+v", o.id, o.ref, *a)
	}
}
