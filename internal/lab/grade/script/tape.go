package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/model"
)

// tapeVerbs are the verbs tape, legal and load.
var tapeVerbs = []*verb{
	{name: "tape", args: "N", check: oneNumber(tapesMax), run: playTape, untimed: true,
		tells: fmt.Sprintf("plays tape N: %d orders given by the seed, buys of one account and sells of another. All are "+
			"queried, and compared with the model of this protocol. A failing tape is shortened for up to %s while it "+
			"still fails", tapeOrders, shrinkTime)},
	{name: "legal", args: "N", check: oneNumber(atOnceMax), run: playLegal, races: true,
		tells: "lets N connections trade a new symbol at the same moment, and searches for a sequential order of all their " +
			"commands in which a book gives the same answers"},
	{name: "load", args: "SECONDS", check: oneNumber(loadSecondsMax), run: playLoad, kills: true, untimed: true,
		tells: fmt.Sprintf("trades on %d connections, kills the server after SECONDS, restarts it, and queries every order "+
			"that was answered", loadConnections)},
}

// Bounds of tapes.
const (
	tapeOrders = 40
	tapesMax   = 99
	shrinkTime = 6 * time.Second
)

// playTape plays a tape. If it fails, playTape looks for the shortest part of it that still fails.
func playTape(ctx context.Context, p *play, s *Step) error {
	n, _ := strconv.Atoi(s.args[0]) // the parser has checked it
	orders := model.Tape(p.Seed*(tapesMax+1)+uint64(n), tapeOrders)
	first, cancel := context.WithTimeout(ctx, p.left)
	defer cancel()
	err := p.tape(first, orders)
	var bad *wrong
	if !errors.As(err, &bad) {
		return err
	}
	orders, bad, err = p.shrink(ctx, orders, bad)
	short := &wrong{fmt.Sprintf("Of %d orders, %s are enough to show it. %s", tapeOrders,
		count(len(orders), "order"), bad.message)}
	if len(orders) == 1 {
		short.message = strings.Replace(short.message, "are enough", "is enough", 1)
	}
	if err != nil {
		short.message += fmt.Sprintf(" While the tape was being shortened: %s.", err)
	}
	return errors.Join(short, err)
}

// tape plays orders with new accounts and a new symbol, and compares the results with the model. Afterwards the
// trace has only the frames of this tape. Errors are those of ask.
func (p *play) tape(ctx context.Context, orders []model.TapeOrder) error {
	p.trace.reset()
	for _, name := range []string{"buyer", "seller", "S"} {
		delete(p.names, name)
	}
	clear(p.vars)
	err := p.ask(ctx, `<create><account id="{buyer}" balance="1000000"/><account id="{seller}" balance="1"/>`+
		`<symbol sym="{S}"><account id="{seller}">1000000</account></symbol></create>`, `<created/><created/><created/>`)
	for i, o := range orders {
		if err != nil {
			return err
		}
		err = p.ask(ctx, fmt.Sprintf(`<transactions id="{%s}"><order sym="{S}" amount="%d" limit="%d"/></transactions>`,
			side(o), o.Amount, o.Limit), fmt.Sprintf(`<opened id="$o%d"/>`, i+1))
	}
	twin := twinOf(orders)
	for _, account := range []string{"buyer", "seller"} {
		var queries, statuses strings.Builder
		for i, o := range orders {
			if side(o) == account {
				fmt.Fprintf(&queries, `<query id="$o%d"/>`, i+1)
				statuses.WriteString(status(twin[i]))
			}
		}
		if err == nil && queries.Len() > 0 {
			err = p.ask(ctx, `<transactions id="{`+account+`}">`+queries.String()+`</transactions>`, statuses.String())
		}
	}
	return err
}

// side returns which of a tape's accounts places an order.
func side(o model.TapeOrder) string {
	if o.Amount < 0 {
		return "seller"
	}
	return "buyer"
}

// twinOf returns the state of each order after the model has executed all of them.
func twinOf(orders []model.TapeOrder) []model.Order {
	twin := model.New()
	twin.Do([]byte(`<create><account id="1" balance="1000000"/><account id="2" balance="1"/>`+
		`<symbol sym="S"><account id="2">1000000</account></symbol></create>`), 0)
	for _, o := range orders {
		account := map[string]int{"buyer": 1, "seller": 2}[side(o)]
		twin.Do(fmt.Appendf(nil, `<transactions id="%d"><order sym="S" amount="%d" limit="%d"/></transactions>`, account,
			o.Amount, o.Limit), 0)
	}
	return twin.Orders()
}

// status returns the WANT for a query of an order. It omits the open shares of a partly executed order, which
// query-cancel/part tests.
func status(o model.Order) string {
	var b strings.Builder
	b.WriteString("<status>")
	switch {
	case o.Open == "0":
	case len(o.Executions) > 0:
		b.WriteString("<open/>")
	default:
		b.WriteString("<open/>")
	}
	for _, e := range o.Executions {
		fmt.Fprintf(&b, `<executed shares="%s" price="%s"/>`, e.Shares, e.Price)
	}
	return b.String() + "</status>"
}

// shrink removes halves of a failing tape, then quarters, and so on down to single orders, as long as the rest still
// fails and time is left. The play's trace is then that of the returned tape. The error is a *dialect.Broken if a
// frame got no reply.
func (p *play) shrink(ctx context.Context, orders []model.TapeOrder, bad *wrong) ([]model.TapeOrder, *wrong, error) {
	ctx, cancel := context.WithTimeout(ctx, shrinkTime)
	defer cancel()
	shown := p.shown()
	for size := (len(orders) + 1) / 2; size > 0 && len(orders) > 0; {
		before := len(orders)
		for at := 0; at < len(orders); {
			fewer := slices.Delete(slices.Clone(orders), at, min(at+size, len(orders)))
			err := p.tape(ctx, fewer)
			switch found := new(wrong); {
			case errors.As(err, &found):
				orders, bad, shown = fewer, found, p.shown()
			case err != nil:
				p.show(shown)
				var broken *dialect.Broken
				if ctx.Err() == nil && errors.As(err, &broken) {
					return orders, bad, broken
				}
				return orders, bad, nil
			default:
				at += size
			}
		}
		if size > 1 {
			size /= 2
		} else if len(orders) == before {
			break
		}
	}
	p.show(shown)
	return orders, bad, nil
}

// shown is the trace of a play, with the values of its names.
type shown struct {
	trace       trace
	names, vars map[string]string
}

func (p *play) shown() shown {
	said := p.trace
	said.entries = slices.Clone(said.entries)
	return shown{said, maps.Clone(p.names), maps.Clone(p.vars)}
}

func (p *play) show(s shown) { p.trace, p.names, p.vars = s.trace, s.names, s.vars }
