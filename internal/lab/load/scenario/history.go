package scenario

import (
	"context"
	"fmt"
	"strconv"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
)

// Past is the scenario that builds a history: pairs of orders that execute against each other, so that
// nothing stays open. It uses its own accounts and symbols, so that it does not affect the books of other
// scenarios.
var Past = Scenario{
	Name: "past", About: "pairs of orders that match", Defaults: Params{Clients: 32, Depth: 4, Symbols: 1, PerFrame: 100},
	Uses: []string{"clients", "depth", "requests", "duration", "symbols", "per_frame"}, prepare: openPast, source: newPast,
}

// makeHistory executes as many orders as r's History parameter requires.
func (r *Run) makeHistory(ctx context.Context) error {
	own := r.Params
	defer func() { r.Params = own }()
	r.Params = Past.Defaults
	each := r.Params.Clients * r.Params.PerFrame
	r.Params.Requests = (own.History + each - 1) / each
	if err := openPast(ctx, r); err != nil {
		return err
	}
	result, err := Past.Measure(ctx, r)
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("%d frames were refused, for example: %s", result.Errors, result.Examples[0])
	}
	return err
}

// openPast opens an account for each client, with shares of every symbol.
func openPast(ctx context.Context, r *Run) error {
	c, placed := new(wire.Create), []wire.Placement(nil)
	for n := range r.Params.Clients {
		id := pastAccount(n)
		c.Account(wire.Account{ID: id, Balance: strconv.Itoa(rich)})
		placed = append(placed, wire.Placement{Account: id, Shares: strconv.Itoa(plenty)})
	}
	for n := range r.Params.Symbols {
		c.Symbol(pastSymbol(n), placed...)
	}
	return r.send(ctx, []prepared{{xml: c.Append(nil)}})
}

func pastAccount(client int) string { return strconv.Itoa(900_000_000 + client) }

func pastSymbol(n int) string { return fmt.Sprintf("PAST%d", n) }

// past repeatedly sells and buys the same shares in one frame.
type past struct {
	xml   []byte
	tally *Tally
}

func newPast(r *Run, client int) load.Source {
	t, sym := wire.NewTransactions(pastAccount(client)), pastSymbol(client%r.Params.Symbols)
	for n := range r.Params.PerFrame {
		t.Order(sym, []string{"-5", "5"}[n%2], "100")
	}
	return r.limited(&past{t.Append(nil), r.tally()})
}

// Next implements load.Source.
func (p *past) Next() []byte { return p.tally.sends(p.xml) }

// Reply implements load.Source.
func (p *past) Reply(xml []byte) error { return p.tally.addReply(xml, nothingRefused) }
