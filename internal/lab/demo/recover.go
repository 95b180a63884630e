package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

const (
	accountsOfFrame = 200  // accounts that one frame opens
	cancelsOfFrame  = 50   // ids that one frame tries to cancel
	sweepsMost      = 5    // frames that one bot sends at the end, at most
	unknownMost     = 1000 // order ids to try after a connection has broken, at most
)

// connect connects and makes sure that the accounts, symbols and shares exist. The first call deposits
// shares with every account. Later calls deposit only with accounts that had to be opened again, because
// the exchange has lost its data.
func (r *run) connect(ctx context.Context) error {
	link, err := dial(&r.options)
	if err != nil {
		return err
	}
	if r.link != nil {
		r.link.close()
	}
	r.link = link
	var endow []*bot
	for bots := range slices.Chunk(r.market.bots, accountsOfFrame) {
		if ctx.Err() != nil {
			return nil // the demo is stopping
		}
		opened, err := r.openAccounts(bots)
		if err != nil {
			return err
		}
		if !r.placed {
			opened = bots
		}
		endow = append(endow, opened...)
	}
	for bots := range slices.Chunk(endow, accountsOfFrame) {
		answers, err := r.link.ask(placementsFrame(bots), len(bots))
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Kind == "error" {
				return fmt.Errorf("place shares: %s", a.Error)
			}
		}
	}
	r.placed = true
	return nil
}

// openAccounts opens the bots' accounts and returns the bots whose accounts did not exist.
func (r *run) openAccounts(bots []*bot) (opened []*bot, err error) {
	answers, err := r.link.ask(accountsFrame(bots), len(bots))
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		switch {
		case existed(a):
		case a.Kind == "error":
			return nil, fmt.Errorf("open account %s: %s", bots[i].account, a.Error)
		default:
			bots[i].open = nil // a new account has no orders
			opened = append(opened, bots[i])
		}
	}
	return opened, nil
}

// reconnect connects again, with growing delays, and cancels the orders whose answers were lost. why is
// the error that broke the connection. It returns nil once the bots may continue; if ctx ends before, it
// returns the result of lastTry.
func (r *run) reconnect(ctx context.Context, why error) error {
	pause := firstPause
	for {
		fmt.Fprintf(r.options.Report, "the connection is lost (%v); next try in %v\n", why, pause)
		select {
		case <-ctx.Done():
			return r.lastTry()
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
		why = r.connect(ctx)
		if why == nil {
			why = r.findUnknown()
		}
		if why == nil {
			fmt.Fprintln(r.options.Report, "connected again")
			return nil
		}
		if !errors.As(why, new(*lostError)) {
			return why
		}
	}
}

// findUnknown cancels the orders whose ids no bot knows because the answers were lost. Each new order has a higher
// id, so the lost ids lie between the last known one and that of an order placed now: a bid far below the market,
// which is canceled at once.
func (r *run) findUnknown() error {
	m := r.market
	if !slices.ContainsFunc(m.bots, func(b *bot) bool { return b.unknown }) {
		return nil
	}
	first, last := m.lastID+1, m.lastID+unknownMost
	probe := m.bots[0]
	probe.unknown = true // until the order below is canceled
	order := wire.NewTransactions(probe.account).Order(probe.fair.sym, "1", tick.String())
	answers, err := r.link.ask(order.Append(nil), 1)
	if err != nil {
		return err
	}
	id, err := exchange.ParseOrderID(answers[0].ID)
	if err == nil { // a rejected order has no id
		last = min(last, id-1)
		if err := r.cancelAll(probe, id, id); err != nil {
			return err
		}
	}
	for _, b := range m.bots {
		if !b.unknown {
			continue
		}
		if err := r.cancelAll(b, first, last); err != nil {
			return err
		}
		b.unknown = false
	}
	m.lastID = max(id, last)
	return nil
}

// cancelAll tries to cancel the orders with ids from from to to. Only orders of the bot's account are canceled.
func (r *run) cancelAll(b *bot, from, to exchange.OrderID) error {
	for first := from; first <= to; first += cancelsOfFrame {
		t, n := wire.NewTransactions(b.account), 0
		for id := first; id <= to && n < cancelsOfFrame; id++ {
			t.Cancel(strconv.FormatUint(uint64(id), 10))
			n++
		}
		// An error means that the order belongs to another account or has nothing open.
		if _, err := r.link.ask(t.Append(nil), n); err != nil {
			return err
		}
	}
	return nil
}

// lastTry reconnects and cancels the bots' open orders after the connection has broken at the end.
func (r *run) lastTry() error {
	if r.options.LeaveOrders {
		return nil
	}
	if err := r.connect(context.Background()); err != nil {
		return r.left(err)
	}
	return r.stop()
}

// stop cancels the bots' open orders, unless LeaveOrders is set. The error says how many orders may still
// be open.
func (r *run) stop() error {
	if r.options.LeaveOrders {
		return nil
	}
	deadline := time.Now().Add(stopTimeout)
	err := r.findUnknown()
	for range sweepsMost {
		for _, b := range r.market.bots {
			if err == nil && len(b.open) > 0 {
				err = r.exchange([]*bot{b}, [][]byte{b.sweep()})
			}
			if err == nil && time.Now().After(deadline) {
				err = fmt.Errorf("it took more than %v", stopTimeout)
			}
		}
	}
	if err == nil && r.market.open() > 0 {
		err = errors.New("the exchange does not cancel them")
	}
	return r.left(err)
}

// left wraps err with the number of orders that may still be open. It returns nil if err is nil.
func (r *run) left(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("up to %d orders of the bots are still open: %w", r.market.open(), err)
}
