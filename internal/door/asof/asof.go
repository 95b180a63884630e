// Package asof returns the state of an order as of a journal record. It reads the events that the view of accounts
// keeps, and asks the history in Postgres for what the events lack. The doors whose answers show orders share it.
package asof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// The errors of Orders.
var (
	// ErrView: the view of accounts does not answer.
	ErrView = errors.New("asof: the view of accounts does not answer")
	// ErrHistory: the order is only in the history, which does not answer.
	ErrHistory = errors.New("asof: the history does not answer")
	// ErrUnknown: there is no such order, or no command of the account used the ref.
	ErrUnknown = errors.New("asof: there is no such order")
	// ErrForeign: the order belongs to another account.
	ErrForeign = errors.New("asof: the order belongs to another account")
)

// History reads the tables in Postgres. Its methods may be called from any goroutine; an error means that the tables
// could not be read.
type History interface {
	// WaitApplied waits until the tables include record seq.
	WaitApplied(ctx context.Context, seq uint64) error
	// OrderAt returns an order as of a moment. found is false if the tables have no order with that id.
	OrderAt(ctx context.Context, id exchange.OrderID, at exchange.Moment) (
		o exchange.OrderWithFills, found bool, err error)
	// RefRecord returns the record that used a ref of an account, and the order that the record made or amended.
	RefRecord(ctx context.Context, account exchange.AccountID, ref exchange.Ref) (
		seq uint64, order exchange.OrderID, found bool, err error)
	// AccountOrders returns orders of an account at a symbol, oldest first.
	AccountOrders(ctx context.Context, id exchange.AccountID, sym exchange.Symbol, from exchange.OrderID, start, end int64,
		limit int) ([]exchange.OrderDetail, error)
	// Trades returns executions of an account at a symbol, oldest first.
	Trades(ctx context.Context, id exchange.AccountID, sym exchange.Symbol, fromTrade uint64, order exchange.OrderID,
		start, end int64, limit int) ([]exchange.AccountFill, error)
}

// Orders answers queries. Its methods may be called from any goroutine. View and History are called for each query.
type Orders struct {
	View    func() *accounts.View
	History func() History
	// Patience bounds the time that a query waits for the history. If it is 0, only the query's context does.
	Patience time.Duration
}

// triesMax is how many times Now reads an order that executes between its reads of the view and of the history.
const triesMax = 3

// Query names an order of an account, and a record.
type Query struct {
	Account exchange.AccountID
	Order   exchange.OrderID
	Seq     uint64
	// Fills is set if the answer needs the newest ViewPageMax executions of the order. If it is not set, the answer may
	// have any of them, perhaps none.
	Fills bool
}

// First returns an order as its own records left it: the record of its acceptance and those of its further parts.
// q.Seq is the last of these records or a later one. Other errors than those of Orders are ctx's.
func (s *Orders) First(ctx context.Context, q Query) (o exchange.OrderWithFills, err error) {
	events, err := s.events(ctx, &q)
	if err != nil {
		return o, err
	}
	if o, ok := replay(own(events, q.Order), &q); ok {
		return o, nil
	}
	return s.stored(ctx, &q, exchange.Moment{Own: true})
}

// At returns an order as of record q.Seq, which must not be before the order's own records. NewRef may lack the ref of
// an amend that changed nothing else. Other errors than those of Orders are ctx's.
func (s *Orders) At(ctx context.Context, q Query) (o exchange.OrderWithFills, err error) {
	events, err := s.events(ctx, &q)
	if err != nil {
		return o, err
	}
	if o, ok := replay(events, &q); ok {
		return o, nil
	}
	return s.stored(ctx, &q, exchange.Moment{Seq: q.Seq})
}

// AtRef returns an order as of the record of the amend that used a ref of its account and kept the order. q.Seq is
// that record or a later one. Other errors than those of Orders are ctx's.
func (s *Orders) AtRef(ctx context.Context, q Query, ref exchange.Ref) (o exchange.OrderWithFills, err error) {
	seq, _, err := s.used(ctx, &q, ref)
	if err != nil {
		return o, err
	}
	return s.stored(ctx, &q, exchange.Moment{Seq: seq})
}

// OfRef returns the order that a command with a ref made or amended. q.Seq is the command's record or a later one.
func (s *Orders) OfRef(ctx context.Context, q Query, ref exchange.Ref) (exchange.OrderID, error) {
	_, id, err := s.used(ctx, &q, ref)
	return id, err
}

// Now returns the state of an order as of record q.Seq or a later one, and that record. Other errors than those of
// Orders are ctx's.
func (s *Orders) Now(ctx context.Context, q Query) (o exchange.OrderWithFills, seq uint64, err error) {
	v := s.View()
	if err := v.Await(ctx, q.Seq); err != nil {
		return o, 0, unseen(ctx, err)
	}
	for try := 1; ; try++ {
		o, missing, seq, open := v.Order(q.Account, q.Order)
		q.Seq = seq
		if !open {
			o, err = s.closed(ctx, &q)
			return o, seq, err
		}
		if !q.Fills || missing == 0 || len(o.Fills) >= exchange.ViewPageMax {
			return o, seq, nil
		}
		stored, err := s.stored(ctx, &q, exchange.Moment{})
		if err != nil {
			return o, 0, err
		}
		o.Fills = before(&stored, o.Executed)
		// If later fills were removed from a full page, the same number of older fills is missing, unless the view has them
		// now.
		cut := len(o.Fills) < len(stored.Fills) && len(stored.Fills) >= exchange.ViewPageMax
		if !cut || try == triesMax {
			return o, seq, nil
		}
	}
}

// before returns the fills of an order up to the moment when it had executed shares. The history may already have
// later fills.
func before(o *exchange.OrderWithFills, executed exchange.Shares) []exchange.AccountFill {
	fills := o.Fills
	for later := o.Executed - executed; later > 0 && len(fills) > 0; fills = fills[:len(fills)-1] {
		later -= fills[len(fills)-1].Shares
	}
	return fills
}

// closed returns an order that was no longer open as of record q.Seq, so it never changes again.
func (s *Orders) closed(ctx context.Context, q *Query) (o exchange.OrderWithFills, err error) {
	events, err := s.events(ctx, q)
	if err != nil {
		return o, err
	}
	if o, ok := replay(events, q); ok {
		return o, nil
	}
	return s.stored(ctx, q, exchange.Moment{})
}

// events returns the kept events up to record q.Seq that changed an order, oldest first.
func (s *Orders) events(ctx context.Context, q *Query) ([]*exchange.AccountEvent, error) {
	events, err := s.View().Did(ctx, q.Account, q.Order, q.Seq)
	if err != nil {
		return nil, unseen(ctx, err)
	}
	return events, nil
}

// unseen returns the error of a query that the view did not answer: ctx's if it ended, otherwise one that wraps
// ErrView.
func unseen(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrView, err)
}

// own returns the events of an order up to the last one of its own records. It returns none if that event is not kept.
func own(events []*exchange.AccountEvent, id exchange.OrderID) []*exchange.AccountEvent {
	for n := len(events); n > 0; n-- {
		if c := events[n-1].Change(id); c != nil && c.Own {
			return events[:n]
		}
	}
	return nil
}

// replay returns an order after the given events. ok is false if the events do not change the order, or lack fills that
// the query needs.
func replay(events []*exchange.AccountEvent, q *Query) (o exchange.OrderWithFills, ok bool) {
	if len(events) == 0 {
		return o, false
	}
	last := events[len(events)-1].Change(q.Order)
	if last == nil {
		return o, false
	}
	o.OrderDetail, o.Account = last.OrderDetail, q.Account
	var executed exchange.Shares
	for _, e := range events {
		for i := range e.Fills {
			if f := &e.Fills[i]; f.Order == q.Order {
				o.Fills = append(o.Fills, *f)
				executed += f.Shares
			}
		}
	}
	return o, !q.Fills || executed == o.Executed || len(o.Fills) >= exchange.ViewPageMax
}

// stored returns an order as of a moment from the history, once the history includes record q.Seq.
func (s *Orders) stored(ctx context.Context, q *Query, at exchange.Moment) (o exchange.OrderWithFills, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	h, found := s.History(), false
	if err := h.WaitApplied(ctx, q.Seq); err != nil {
		return o, fmt.Errorf("%w: %w", ErrHistory, err)
	}
	o, found, err = h.OrderAt(ctx, q.Order, at)
	switch {
	case err != nil:
		return exchange.OrderWithFills{}, fmt.Errorf("%w: %w", ErrHistory, err)
	case !found:
		return exchange.OrderWithFills{}, ErrUnknown
	case o.Account != q.Account:
		return exchange.OrderWithFills{}, ErrForeign
	}
	return o, nil
}

// used returns the record that used a ref, and its order, once the history includes record q.Seq.
func (s *Orders) used(ctx context.Context, q *Query, ref exchange.Ref) (seq uint64, id exchange.OrderID, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	h, found := s.History(), false
	if err := h.WaitApplied(ctx, q.Seq); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrHistory, err)
	}
	seq, id, found, err = h.RefRecord(ctx, q.Account, ref)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%w: %w", ErrHistory, err)
	case !found:
		return 0, 0, ErrUnknown
	}
	return seq, id, nil
}

// within returns ctx with s.Patience as its limit of time.
func (s *Orders) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Patience == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.Patience)
}
