package jsonrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"outcry/internal/door/jsontext"
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

// unmarketed returns the fault of a request for market data that is unavailable, or ctx's error if ctx has ended.
func unmarketed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return wrong(notReady, "market data are not available now: "+err.Error())
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
	b = jsontext.Word(c.seq(b, 0, seq), "account", a.ID)
	b = jsontext.Number(jsontext.Number(b, "n", a.N), "last_fill", a.LastFill)
	b = jsontext.Decimal(jsontext.Decimal(b, "balance", a.Balance), "held", a.Held)
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
	return jsontext.Bool(memberOrders(c.seq(b, 0, seq), orders), "more", more), nil
}

func (c *conn) answerSymbols(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, theMarket); err != nil {
		return nil, err
	}
	feed := c.door.options.Feed()
	if feed == nil {
		return nil, unmarketed(ctx, errNoMarket)
	}
	entries, seq := []byte{'['}, uint64(0)
	n, more := 0, false
	err := feed.Each(k.args.afterName, func(m *market.Market) bool {
		seq = m.Seq()
		if more = n == pageMax; more {
			return false
		}
		n++
		rules := m.Rules()
		entries = jsontext.Word(append(jsontext.Next(entries), '{'), "sym", m.Symbol())
		entries = jsontext.Decimal(jsontext.Decimal(entries, "tick", max(rules.Tick, 1)), "lot", max(rules.Lot, 1))
		entries = append(jsontext.Bool(entries, "halted", m.Halt() != nil), '}')
		return true
	})
	if err != nil {
		return nil, unmarketed(ctx, err)
	}
	b = jsontext.Raw(c.seq(b, 0, max(seq, k.mark.Seq)), "symbols", append(entries, ']'))
	return jsontext.Bool(b, "more", more), nil
}

func (c *conn) answerBook(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.await(ctx, k, theMarket); err != nil {
		return nil, err
	}
	err := c.door.look(k.args.Symbol, func(m *market.Market) {
		b = jsontext.Number(c.seq(b, 0, m.Seq()), "book_seq", m.BookSeq())
		b = jsontext.Word(b, "sym", m.Symbol())
		b = jsontext.Levels(jsontext.Name(b, "bids"), m.Bids(), k.args.depth, jsontext.AppendLevel)
		b = jsontext.Levels(jsontext.Name(b, "asks"), m.Asks(), k.args.depth, jsontext.AppendLevel)
		b = jsontext.Number(b, "checksum", m.Checksum())
	})
	return b, err
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
		b = jsontext.Number(jsontext.Word(c.seq(b, 0, m.Seq()), "sym", m.Symbol()), "last_trade", last)
		b = append(jsontext.Name(b, "trades"), '[')
		for n := from; n <= to; n++ {
			t := m.Trade(n)
			b = appendTrade(jsontext.Next(b), n, &t)
		}
		b = jsontext.Bool(append(b, ']'), "more", to < last)
	})
	return b, cmp.Or(err, forgotten)
}
