package jsonrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

const (
	tradesNewest = 100  // number of trades that trades.list returns without after
	pageMax      = 1000 // maximum length of a list
)

// sees says what a request reads.
type sees uint8

const (
	theMarket sees = 1 << iota
	accountsToo
)

// await waits until a read includes everything that was answered before its request arrived, and until that is
// durable.
func (c *conn) await(ctx context.Context, k *call, what sees) error {
	if s := c.door.options.Sessions(); s != nil {
		if err := s.Durable(ctx, k.mark); err != nil {
			return err
		}
	}
	if what&accountsToo != 0 {
		if v := c.door.view(); v == nil || v.Await(ctx, c.reached(k)) != nil {
			return unseenOr(ctx)
		}
	}
	if what&theMarket != 0 {
		feed := c.door.options.Feed()
		if feed == nil {
			return unmarketed(ctx, errNoMarket)
		}
		if err := feed.Await(ctx, c.reached(k)); err != nil {
			return unmarketed(ctx, err)
		}
	}
	return nil
}

// reached returns the seq up to which the data of a read must include everything.
func (c *conn) reached(k *call) uint64 { return max(k.mark.Seq, c.sentSeq) }

// unmarketed returns the fault of a request for market data while there is none, or ctx's error if ctx has ended.
func unmarketed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return wrong(notReady, "there is no market data now: "+err.Error())
}

// look calls read with the market of a symbol.
func (d *Door) look(sym exchange.Symbol, read func(*market.Market)) error {
	feed := d.options.Feed()
	if feed == nil {
		return unmarketed(context.Background(), errNoMarket)
	}
	err := feed.View(sym, read)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, market.ErrUnknownSymbol):
		r := exchange.Result{Reason: exchange.UnknownSymbol}
		return refused(r.Reason, r.Text(&exchange.Command{Symbol: sym}))
	}
	return unmarketed(context.Background(), err)
}

func (c *conn) answerAccount(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, accountsToo); err != nil {
		return nil, err
	}
	a, seq, err := c.door.view().Account(k.args.Account)
	if err != nil {
		return nil, accountFault(err, &k.args)
	}
	b = memberText(c.seq(b, 0, seq), "account", string(a.ID))
	b = memberNumber(memberNumber(b, "n", a.N), "last_fill", a.LastFill)
	b = memberDecimal(memberDecimal(b, "balance", a.Balance), "held", a.Held)
	return memberPositions(b, a.Positions), nil
}

func (c *conn) answerOpen(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, accountsToo); err != nil {
		return nil, err
	}
	a := &k.args
	orders, more, seq, err := c.door.view().OpenOrders(a.Account, a.Symbol, exchange.OrderID(a.after), pageMax)
	if err != nil {
		return nil, accountFault(err, a)
	}
	return memberBool(memberOrders(c.seq(b, 0, seq), orders), "more", more), nil
}

func (c *conn) answerSymbols(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, theMarket); err != nil {
		return nil, err
	}
	feed := c.door.options.Feed()
	if feed == nil {
		return nil, unmarketed(ctx, errNoMarket)
	}
	var entries []byte
	var seq uint64
	n, more := 0, false
	err := feed.Each(k.args.afterName, func(m *market.Market) bool {
		seq = m.Seq()
		if more = n == pageMax; more {
			return false
		}
		if n++; n > 1 {
			entries = append(entries, ',')
		}
		rules := m.Rules()
		entries = memberName(append(entries, '{'), "sym", m.Symbol())
		entries = memberDecimal(memberDecimal(entries, "tick", max(rules.Tick, 1)), "lot", max(rules.Lot, 1))
		entries = append(memberBool(entries, "halted", m.Halt() != nil), '}')
		return true
	})
	if err != nil {
		return nil, unmarketed(ctx, err)
	}
	b = append(appendName(c.seq(b, 0, max(seq, k.mark.Seq)), "symbols"), '[')
	return memberBool(append(append(b, entries...), ']'), "more", more), nil
}

func (c *conn) answerBook(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, theMarket); err != nil {
		return nil, err
	}
	err := c.door.look(k.args.Symbol, func(m *market.Market) {
		b = memberNumber(c.seq(b, 0, m.Seq()), "book_seq", m.BookSeq())
		b = memberName(b, "sym", m.Symbol())
		b = memberSide(b, "bids", m, exchange.Buy, k.args.depth)
		b = memberSide(b, "asks", m, exchange.Sell, k.args.depth)
		b = memberNumber(b, "checksum", uint64(m.Checksum()))
	})
	return b, err
}

// memberSide appends the best levels of a side.
func memberSide(b []byte, name string, m *market.Market, side exchange.Side, depth int) []byte {
	all := m.Bids()
	if side == exchange.Sell {
		all = m.Asks()
	}
	b, n := append(appendName(b, name), '['), 0
	for p, shares := range all {
		if n == depth {
			break
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = appendLevel(b, p, shares)
	}
	return append(b, ']')
}

func (c *conn) answerTrades(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, theMarket); err != nil {
		return nil, err
	}
	var forgotten error
	err := c.door.look(k.args.Symbol, func(m *market.Market) {
		first, last := m.FirstTrade(), m.LastTrade()
		from, to := max(first, last+1-min(last, tradesNewest)), last
		if k.args.hasAfter {
			from = k.args.after + 1
			to = min(last, k.args.after+pageMax)
			if from < first && from <= last {
				forgotten = refused(exchange.FillsForgotten, fmt.Sprintf("the trades up to %d are no longer kept", first-1))
				return
			}
		}
		b = memberNumber(memberName(c.seq(b, 0, m.Seq()), "sym", m.Symbol()), "last_trade", last)
		n := 0
		if from <= to {
			n = int(to - from + 1)
		}
		b = list(b, "trades", n, func(b []byte, i int) []byte {
			t := m.Trade(from + uint64(i))
			return appendTrade(b, from+uint64(i), &t)
		})
		b = memberBool(b, "more", to < last)
	})
	return b, cmp.Or(err, forgotten)
}
