package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"outcry/internal/door/xml/wire"
)

const (
	oldPlaced = 400 // orders that the exchange is to forget
	oldAsked  = 5   // of which so many are asked for in frames before an order
	behindMax = 100 // orders of another connection, within which that order has to be executed
)

// NothingBehindHistory asks for orders that only Postgres knows while it stands still. An order
// behind them on the same connection has to be executed meanwhile: another connection sees by
// the ids that it was. o is what an account at may place without end; forgotten waits until the
// exchange's memory has none of its closed orders, and freeze stops Postgres. The error says
// what was held back, or answered wrongly.
func (s *Session) NothingBehindHistory(ctx context.Context, at Target, o BulkOrder,
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
	// Frames that come together are executed together: let those be read.
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
	return s.judgeBehind(l, old[:oldAsked], other)
}

// closeOrders places orders and cancels them.
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

// askUnknown demands that an order that there cannot be is unknown, whatever Postgres does.
func askUnknown(ctx context.Context, at Target, account string) error {
	answers, err := Ask(ctx, at, wire.NewTransactions(account).Query("1000000000000").Append(nil))
	if err == nil && !strings.HasPrefix(answers[0].Error, "there is no order") {
		err = fmt.Errorf("an id that was never given out is answered with %+v while Postgres stands still", answers[0])
	}
	return err
}

// placeBeside places orders one after another on another connection, and returns the
// newest id. So many round trips are more than a reader needs for some frames.
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
			return 0, fmt.Errorf("beside queries of old orders: %w", err)
		}
		ids, refusal := s.BulkTold(answers)
		if len(ids) == 0 {
			return 0, fmt.Errorf("beside queries of old orders: %s", refusal)
		}
		newest = ids[0]
	}
	return newest, nil
}

// judgeBehind reads the replies to queries of old orders and to the order behind them.
func (s *Session) judgeBehind(l *Line, old []uint64, other uint64) error {
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
		return fmt.Errorf("an order behind queries of old orders has no reply: %w", err)
	}
	ids, refusal := s.BulkTold(answers)
	switch {
	case len(ids) == 0:
		return fmt.Errorf("an order behind queries of old orders: %s", refusal)
	case ids[0] > other:
		return fmt.Errorf("an order behind %d queries of old orders was executed as %d, after %d of another connection: "+
			"they held it back", len(old), ids[0], behindMax)
	}
	return nil
}
