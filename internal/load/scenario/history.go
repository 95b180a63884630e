package scenario

import (
	"context"
	"fmt"
	"strconv"

	"outcry/internal/load"
	"outcry/internal/wire"
)

const (
	historyClients = 32
	historyDepth   = 4
	historySymbol  = "PAST" // its own, so that the scenario's books are as they would be
	pairsPerFrame  = 50
)

// makeHistory lets pairs of orders execute, of which nothing is left open.
func (r *Run) makeHistory(ctx context.Context) error {
	c, placed := new(wire.Create), []wire.Placement(nil)
	for n := range historyClients {
		id := historyAccount(n)
		c.Account(wire.Account{ID: id, Balance: rich})
		placed = append(placed, wire.Placement{Account: id, Shares: plenty})
	}
	if err := r.send(ctx, [][]byte{c.Symbol(historySymbol, placed...).Append(nil)}); err != nil {
		return err
	}
	pairs := (r.Params.History + 2*historyClients - 1) / (2 * historyClients)
	result, err := load.Closed(ctx, load.Options{Addrs: r.Addrs, Connections: historyClients, Depth: historyDepth,
		Progress: r.Progress}, func(n int) load.Source {
		return &past{account: historyAccount(n), left: pairs, tally: r.tally()}
	})
	if err != nil {
		return err
	}
	if result.Errors > 0 {
		return fmt.Errorf("%d frames were refused, for example: %s", result.Errors, result.Examples[0])
	}
	return nil
}

func historyAccount(n int) string { return strconv.Itoa(900_000_000 + n) }

// past sells and buys the same shares, so many times.
type past struct {
	account string
	left    int
	tally   *Tally
	xml     []byte
}

// Next implements load.Source.
func (p *past) Next() []byte {
	if p.left == 0 {
		return nil
	}
	b := append(p.xml[:0], `<transactions id="`...)
	b = append(append(b, p.account...), `">`...)
	n := min(p.left, pairsPerFrame)
	p.left -= n
	for range n {
		b = append(b, `<order sym="`+historySymbol+`" amount="-5" limit="100"/>`+
			`<order sym="`+historySymbol+`" amount="5" limit="100"/>`...)
	}
	p.xml = append(b, "</transactions>"...)
	return p.tally.sends(p.xml)
}

// Reply implements load.Source.
func (p *past) Reply(xml []byte) error { return p.tally.take(xml, nothingRefused) }
