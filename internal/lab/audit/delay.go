package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

const (
	oldPlaced = 400 // orders to close so that the exchange forgets them
	oldAsked  = 5   // number of forgotten orders queried before the new order
	behindMax = 100 // the new order must be executed before this many orders on another connection
)

// HistoryDelaysNothing checks that a query that must wait for Postgres does not delay a later order on
// the same connection. It freezes Postgres, queries orders that only Postgres knows, sends an order on
// the same connection, and sends orders on another connection: the order ids show whether the first order
// was executed in time. o must be an order that its account can place any number of times. forgotten
// waits until the exchange's memory has none of the account's closed orders. freeze stops Postgres. The
// error says what was delayed, or answered wrongly.
func (s *Session) HistoryDelaysNothing(ctx context.Context, at Target, o BulkOrder,
	forgotten func(context.Context) error, freeze func() (thaw func())) error {
	old, err := s.closeOrders(ctx, at, o)
	if err != nil {
		return err
	}
	if err := forgotten(ctx); err != nil {
		return err
	}
	l, err := DialLine(ctx, at)
	if err != nil {
		return err
	}
	defer l.Close()
	thaw := freeze()
	defer thaw()
	if err := askUnknown(ctx, at, o.Account); err != nil {
		return err
	}
	var frames [][]byte
	for _, id := range old[:oldAsked] {
		frames = append(frames, wire.NewTransactions(o.Account).Query(fmt.Sprint(id)).Cancel(fmt.Sprint(id)).Append(nil))
	}
	if err := l.Send(frames...); err != nil {
		return err
	}
	// Frames that arrive together are executed together, so the queries must be read before the order is
	// sent.
	if _, err := s.placeBeside(ctx, at, o); err != nil {
		return err
	}
	if err := l.Send(s.BulkFrame(o, 1)); err != nil {
		return err
	}
	other, err := s.placeBeside(ctx, at, o)
	if err != nil {
		return err
	}
	thaw()
	return s.judgeUndelayed(l, old[:oldAsked], other)
}

// closeOrders places orders and cancels them, and returns their ids.
func (s *Session) closeOrders(ctx context.Context, at Target, o BulkOrder) (ids []uint64, err error) {
	ids, refusal, err := s.PlaceMany(ctx, at, o, oldPlaced)
	if err != nil || refusal != "" {
		return nil, errors.Join(err, fmt.Errorf("the abuser's orders are refused: %q", refusal))
	}
	t := wire.NewTransactions(o.Account)
	for _, id := range ids {
		t.Cancel(fmt.Sprint(id))
	}
	answers, err := Ask(ctx, at, t.Append(nil))
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.Kind != "canceled" {
			return nil, fmt.Errorf("a cancel is answered with %+v", a)
		}
	}
	return ids, nil
}

// askUnknown checks that an order id that was never given out is reported as unknown, even while Postgres
// is frozen.
func askUnknown(ctx context.Context, at Target, account string) error {
	answers, err := Ask(ctx, at, wire.NewTransactions(account).Query("1000000000000").Append(nil))
	if err == nil && !rejectedFor(answers[0].Error, exchange.UnknownOrder) {
		err = fmt.Errorf("an id that was never given out is answered with %+v while Postgres is frozen", answers[0])
	}
	return err
}

// placeBeside places orders one after another on another connection, and returns the newest id. The round
// trips take longer than the server needs to read a few frames.
func (s *Session) placeBeside(ctx context.Context, at Target, o BulkOrder) (newest uint64, err error) {
	l, err := DialLine(ctx, at)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	for range behindMax {
		if err := l.Send(s.BulkFrame(o, 1)); err != nil {
			return 0, err
		}
		answers, err := l.Reply(BulkReplyMax)
		if err != nil {
			return 0, fmt.Errorf("next to queries of old orders: %w", err)
		}
		ids, refusal := s.BulkAnswered(answers)
		if len(ids) == 0 {
			return 0, fmt.Errorf("next to queries of old orders: %s", refusal)
		}
		newest = ids[0]
	}
	return newest, nil
}

// judgeUndelayed checks the replies to the queries of old orders and to the order sent after them.
func (s *Session) judgeUndelayed(l *Line, old []uint64, other uint64) error {
	if err := l.SetReadDeadline(time.Now().Add(ReplyTimeout)); err != nil {
		return err
	}
	for _, id := range old {
		answers, err := l.Reply(BulkReplyMax)
		if err != nil {
			return fmt.Errorf("a query of an old order has no reply: %w", err)
		}
		if len(answers) != 2 || answers[0].ID != fmt.Sprint(id) || answers[1].ID != fmt.Sprint(id) {
			return fmt.Errorf("a query of old order %d is answered with %+v", id, answers)
		}
	}
	answers, err := l.Reply(BulkReplyMax)
	if err != nil {
		return fmt.Errorf("an order after queries of old orders has no reply: %w", err)
	}
	ids, refusal := s.BulkAnswered(answers)
	switch {
	case len(ids) == 0:
		return fmt.Errorf("an order after queries of old orders: %s", refusal)
	case ids[0] > other:
		return fmt.Errorf("an order after %d queries of old orders was executed as %d, after %d of another connection: "+
			"they delayed it", len(old), ids[0], behindMax)
	}
	return nil
}
