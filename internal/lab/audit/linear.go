package audit

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	api "outcry/clients/go/client"
	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// In each round one symbol is traded with one command at a time on each connection, and the times of
// sending and answering are recorded. Porcupine then looks for a linearization: an order of all commands,
// each at one moment between its two times, in which a plain book gives the same answers. Commands
// without an answer count if the tables have them. The queries after the restart belong to the history
// too: what was answered before a crash must be consistent with the answers after it.

// linearOps is how many commands a client of this symbol sends in a round.
const linearOps = 120

// input is a command and output its outcome. Execution times are left out, since the model has no clock.
type input struct {
	kind          kind
	amount, limit int64
	id            uint64 // set for query, cancel
}

type output struct {
	refused        bool
	id             uint64
	open, canceled int64
	fills          []trade
}

type trade struct{ shares, price int64 }

// linearHistory records what the clients of the symbol did.
type linearHistory struct {
	sym   string
	start time.Time
	pace  time.Duration // longest pause before a command

	mu      sync.Mutex
	ops     []porcupine.Operation // answered commands
	pending []pendingOp
	ids     []uint64
}

// pendingOp is a command without an answer.
type pendingOp struct {
	op    porcupine.Operation
	order *sentOrder // set for place
}

func (l *linearHistory) now() int64 { return int64(time.Since(l.start)) }

// trade runs one client of the symbol.
func (l *linearHistory) trade(n int, r *rand.Rand, at Target, account string, h *knowledge,
	stop <-chan struct{}) error {
	conn, err := Dial(context.Background(), at)
	if err != nil && len(at.Others) == 0 {
		return err
	}
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	var mine []uint64
	for range linearOps {
		for conn == nil && !closed(stop) { // in a cluster: wait until some node leads
			time.Sleep(connectAgain)
			conn, _ = Dial(context.Background(), at)
		}
		if closed(stop) {
			return nil
		}
		if l.pace > 0 {
			time.Sleep(time.Duration(r.Int64N(int64(l.pace))))
		}
		in, order, xml := l.command(r, account, mine, h)
		op := porcupine.Operation{ClientId: n, Input: in, Call: l.now()}
		reply, err := l.exchange(conn, xml, at.patience())
		if err != nil {
			l.mu.Lock()
			l.pending = append(l.pending, pendingOp{op, order})
			l.mu.Unlock()
			if len(at.Others) == 0 {
				return err
			}
			conn.Close()
			conn = nil
			continue
		}
		op.Return = l.now()
		out := outputOf(reply)
		op.Output = out
		if out.refused && rejectedFor(reply.Error, exchange.RefUnavailable, exchange.HistoryUnavailable) {
			continue // the order closed long ago and Postgres is down, so this is no answer
		}
		if order != nil {
			h.mu.Lock()
			h.recordOrder(order, reply)
			h.mu.Unlock()
			if !out.refused {
				mine = append(mine, out.id)
			}
		}
		l.mu.Lock()
		l.ops = append(l.ops, op)
		if order != nil && !out.refused {
			l.ids = append(l.ids, out.id)
		}
		l.mu.Unlock()
	}
	return nil
}

func (l *linearHistory) exchange(conn *api.Conn, xml []byte, patience time.Duration) (*wire.Answer, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	conn.SendFrame(xml)
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	reply, err := conn.NextReply()
	if err != nil {
		return nil, err
	}
	answers, err := wire.ParseReply(reply)
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return nil, fmt.Errorf("check: %d answers to one command: %s", len(answers), reply)
	}
	return &answers[0], lastWords(&answers[0])
}

// command makes a random command.
func (l *linearHistory) command(r *rand.Rand, account string, mine []uint64, h *knowledge) (input, *sentOrder, []byte) {
	t := wire.NewTransactions(account)
	l.mu.Lock()
	known := slices.Clone(l.ids)
	l.mu.Unlock()
	switch what := r.IntN(10); {
	case what < 2 && len(known) > 0:
		id := known[r.IntN(len(known))]
		return input{kind: query, id: id}, nil, t.Query(fmt.Sprint(id)).Append(nil)
	case what < 4 && len(mine) > 0:
		id := mine[r.IntN(len(mine))]
		return input{kind: cancel, id: id}, nil, t.Cancel(fmt.Sprint(id)).Append(nil)
	}
	amount := int64(1 + r.IntN(5))
	if r.IntN(2) == 0 {
		amount = -amount
	}
	o := h.order(account, l.sym, amount, int64(priceMiddle+priceTick*(r.IntN(5)-2)))
	return input{kind: place, amount: o.amount, limit: o.limit}, o,
		t.Order(o.sym, decimal(o.amount), decimal(o.limit)).Append(nil)
}

// outputOf converts an answer.
func outputOf(a *wire.Answer) output {
	out := output{refused: a.Kind == "error", id: number(a.ID), open: hundredMillionths(a.Open),
		canceled: hundredMillionths(a.Canceled)}
	for _, e := range a.Executed {
		out.fills = append(out.fills, trade{hundredMillionths(e.Shares), hundredMillionths(e.Price)})
	}
	return out
}

// finish adds commands without an answer that the tables show, and the exchange's current answers.
func (l *linearHistory) finish(orders map[uint64]*order,
	byOrder func(*sentOrder) (uint64, bool)) []porcupine.Operation {
	ops := slices.Clone(l.ops)
	now := l.now()
	for _, p := range l.pending {
		p.op.Return = now
		switch in := p.op.Input.(input); in.kind {
		case place:
			id, happened := byOrder(p.order)
			if !happened {
				continue
			}
			p.op.Output = output{id: id}
		case cancel:
			o := orders[in.id]
			if o == nil || o.canceled == 0 || l.canceledByAnswer(in.id) {
				continue
			}
			a := o.status()
			out := outputOf(&a)
			out.open = 0
			p.op.Output = out
		case query, create, retry, repeat, other, byRef, sweep:
			continue
		}
		ops = append(ops, p.op)
	}
	for id, o := range orders {
		if o.sym == l.sym {
			a := o.status()
			ops = append(ops, porcupine.Operation{Input: input{kind: query, id: id}, Output: outputOf(&a),
				Call: now + 1, Return: now + 2})
		}
	}
	return ops
}

// canceledByAnswer reports whether the answer to a cancel shows that the order was canceled.
func (l *linearHistory) canceledByAnswer(id uint64) bool {
	return slices.ContainsFunc(l.ops, func(op porcupine.Operation) bool {
		in, out := op.Input.(input), op.Output.(output)
		return in.kind == cancel && in.id == id && !out.refused
	})
}

// linearOrder is an order in the model's book.
type linearOrder struct {
	id             uint64
	amount, limit  int64
	open, canceled int64
	fills          []trade
}

// agreement says what must agree in answers besides the open and canceled shares.
type agreement struct {
	rising bool // ids rise in the order of acceptance
	each   bool // compare every execution with its price, not only the executed shares
	// most is the final total of executed shares by order id, if it is known. If an order of a linearization executes
	// more, the search abandons the linearization at once instead of at the next query.
	most map[uint64]int64
}

// linearModel is the model of our exchange.
var linearModel = linearModelOf(agreement{rising: true, each: true})

// linearModelOf returns a porcupine model of one symbol's book: a list of orders in the order of
// acceptance.
func linearModelOf(b agreement) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return []linearOrder(nil) },
		Step: func(state, in, out any) (bool, any) {
			return b.step(state.([]linearOrder), in.(input), out.(output))
		},
		Equal: func(x, y any) bool {
			return slices.EqualFunc(x.([]linearOrder), y.([]linearOrder), func(x, y linearOrder) bool {
				return x.id == y.id && x.open == y.open && x.canceled == y.canceled && slices.Equal(x.fills, y.fills)
			})
		},
		Hash: func(state any) uint64 {
			h := fnv.New64a()
			for _, o := range state.([]linearOrder) {
				fmt.Fprint(h, o.id, o.open, o.canceled, len(o.fills))
			}
			return h.Sum64()
		},
	}
}

// agree reports whether the executions in an answer match those of the model.
func (b agreement) agree(were, reported []trade) bool {
	if b.each {
		return slices.Equal(were, reported)
	}
	return executed(were) == executed(reported)
}

// tooMuch reports whether more of o is executed than the known final total.
func (b agreement) tooMuch(o linearOrder) bool {
	most, known := b.most[o.id]
	return known && executed(o.fills) > most
}

func executed(fills []trade) (shares int64) {
	for _, f := range fills {
		shares += f.shares
	}
	return shares
}

func (b agreement) step(orders []linearOrder, in input, out output) (bool, []linearOrder) {
	if in.kind == place {
		if out.refused {
			return true, orders // rejected for lack of cash or shares, which the model does not track
		}
		if n := len(orders); b.rising && n > 0 && orders[n-1].id >= out.id {
			return false, orders
		}
		after := stepPlace(orders, in, out.id)
		return !slices.ContainsFunc(after, b.tooMuch), after
	}
	at := slices.IndexFunc(orders, func(o linearOrder) bool { return o.id == in.id })
	if at < 0 {
		return false, orders
	}
	o := orders[at]
	if in.kind == query {
		return !out.refused && o.open == out.open && o.canceled == out.canceled && b.agree(o.fills, out.fills), orders
	}
	if out.refused {
		return o.open == 0, orders
	}
	if o.open == 0 || out.canceled != o.open || !b.agree(o.fills, out.fills) {
		return false, orders
	}
	after := slices.Clone(orders)
	after[at].open, after[at].canceled = 0, o.open
	return true, after
}

// stepPlace accepts an order.
func stepPlace(orders []linearOrder, in input, id uint64) []linearOrder {
	after := slices.Clone(orders)
	o := linearOrder{id: id, amount: in.amount, limit: in.limit, open: abs(in.amount)}
	for o.open > 0 {
		best := -1
		for i, r := range after {
			if r.open == 0 || (r.amount > 0) == (o.amount > 0) || o.amount > 0 && r.limit > o.limit ||
				o.amount < 0 && r.limit < o.limit {
				continue
			}
			if best < 0 || o.amount > 0 && r.limit < after[best].limit || o.amount < 0 && r.limit > after[best].limit {
				best = i
			}
		}
		if best < 0 {
			break
		}
		r := &after[best]
		f := trade{min(o.open, r.open), r.limit}
		o.open, r.open = o.open-f.shares, r.open-f.shares
		o.fills = append(o.fills, f)
		r.fills = append(slices.Clone(r.fills), f)
	}
	return append(after, o)
}
