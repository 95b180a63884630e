package jsonrpc

import (
	"context"
	"fmt"

	"outcry/internal/door/asof"
	"outcry/internal/door/jsontext"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// ask queues a command for execution with its run, and executes a read at once. A fault means that nothing was or will
// be done.
func (c *conn) ask(k *call, r engine.Request) *fault {
	if r.Kind == exchange.PlaceOrder || r.Kind == exchange.AmendOrder || r.Kind == exchange.CancelOrder {
		if err := c.door.options.View().Err(); err != nil { // the answer to the command needs the view
			return unseen()
		}
		c.watch(r.Account)
	}
	if err := c.enter(); err != nil { // the connection was opened while the server took no orders
		return wrong(busy, err.Error())
	}
	k.asked[0] = r
	if k.method.reads {
		c.call([]*call{k}, k.asked[:], k.came[:])
	}
	return k.fault
}

// watch makes the view of accounts keep the events of an account from now on, for answers to the account's
// commands.
func (c *conn) watch(id exchange.AccountID) {
	if _, watched := c.watched[id]; watched {
		return
	}
	if len(c.watched) >= watchedMax {
		for _, release := range c.watched {
			release()
		}
		c.watched = nil
	}
	if c.watched == nil {
		c.watched = make(map[exchange.AccountID]func())
	}
	c.watched[id] = c.door.options.View().Watch(id)
}

// settle waits until the outcome of a command is durable. A *fault means that the command was refused.
func (c *conn) settle(ctx context.Context, k *call) error {
	k.pending.Complete(ctx)
	if err := k.pending.Wait(ctx); err != nil {
		return err
	}
	o := &k.came[0]
	if o.Refusal.Reason != exchange.OK {
		return refused(o.Refusal.Reason, o.Refusal.Text)
	}
	if o.Reason == exchange.OK {
		return nil
	}
	if o.Reason == exchange.AlreadyCanceled {
		if f := c.replaced(ctx, k); f != nil {
			return f
		}
	}
	return refused(o.Reason, o.Text(&k.asked[0].Command))
}

// replaced returns the fault of a command about an order that has nothing open because another order has replaced
// it. It returns nil if the order was not replaced, or if that is unknown.
func (c *conn) replaced(ctx context.Context, k *call) *fault {
	id := k.asked[0].Names(&k.came[0].Result)
	o, _, err := c.door.orderNow(ctx, k.orderQuery(id, k.mark.Seq))
	if err != nil || o.State != exchange.StatusReplaced {
		return nil
	}
	return wrong(alreadyReplaced, fmt.Sprintf("order %d has nothing open: it was replaced by order %d", id, o.By))
}

// orderQuery returns the query for an order of the call's account, with its fills.
func (k *call) orderQuery(id exchange.OrderID, seq uint64) asof.Query {
	return asof.Query{Account: k.asked[0].Account, Order: id, Seq: seq, Fills: true}
}

// seq appends the seq of a result: the record that the command wrote or, if wrote is 0, the record up to which the
// answer includes everything. It is then never below the seq of an earlier answer.
func (c *conn) seq(b []byte, wrote, read uint64) []byte {
	if wrote == 0 {
		wrote = max(read, c.sentSeq)
	}
	c.sentSeq = max(c.sentSeq, wrote)
	return jsontext.Number(b, "seq", wrote)
}

func (c *conn) beginPlace(k *call) *fault {
	a := &k.args
	a.Kind, a.Report = exchange.PlaceOrder, true
	if !a.has("cod") {
		a.OnDisconnect = c.cancels
	}
	return c.ask(k, engine.Request{Command: a.Command})
}

func (c *conn) answerPlace(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.settle(ctx, k); err != nil {
		return nil, err
	}
	r := &k.came[0].Result
	o, err := c.door.orderMade(ctx, k.orderQuery(r.Order, k.mark.Seq), r.Seq)
	if err != nil {
		return nil, err
	}
	return memberOrder(c.seq(b, r.Seq, k.mark.Seq), &o.OrderDetail, o.Fills), nil
}

func (c *conn) beginAmend(k *call) *fault {
	a := &k.args
	a.Kind, a.Report = exchange.AmendOrder, true
	if a.newRef != "" {
		a.More = &exchange.CommandMore{NewRef: a.newRef}
	}
	return c.ask(k, engine.Request{Command: a.Command})
}

func (c *conn) answerAmend(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.settle(ctx, k); err != nil {
		return nil, err
	}
	r := &k.came[0].Result
	named := k.asked[0].Names(r)
	o, err := c.amended(ctx, k, named)
	if err != nil {
		return nil, err
	}
	b = jsontext.Number(c.seq(b, r.Seq, k.mark.Seq), "id", named)
	if r.Amended.By != 0 {
		b = jsontext.Number(b, "by", r.Amended.By)
	}
	return memberOrder(b, &o.OrderDetail, o.Fills), nil
}

// amended returns an order in its state after an amend.
func (c *conn) amended(ctx context.Context, k *call, named exchange.OrderID) (
	o exchange.OrderWithFills, err error,
) {
	r := &k.came[0].Result
	switch by := r.Amended.By; {
	case by != 0:
		o, err = c.door.orderMade(ctx, k.orderQuery(by, k.mark.Seq), r.Seq)
	case r.Seq != 0:
		o, err = c.door.orderAt(ctx, k.orderQuery(named, r.Seq))
	case k.args.newRef != "":
		o, err = c.door.orderOfRef(ctx, k.orderQuery(named, k.mark.Seq), k.args.newRef)
	default:
		o, err = c.door.orderAt(ctx, k.orderQuery(named, k.mark.Seq))
	}
	if k.args.newRef != "" {
		o.NewRef = k.args.newRef // no event has the ref of an amend that changes nothing else
	}
	return o, err
}

func (c *conn) beginCancel(k *call) *fault {
	k.args.Kind = exchange.CancelOrder
	return c.ask(k, engine.Request{Command: k.args.Command})
}

func (c *conn) answerCancel(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.settle(ctx, k); err != nil {
		return nil, err
	}
	r := &k.came[0].Result
	o, err := c.door.orderAt(ctx, k.orderQuery(k.asked[0].Names(r), r.Seq))
	if err != nil {
		return nil, err
	}
	return memberOrder(c.seq(b, r.Seq, k.mark.Seq), &o.OrderDetail, o.Fills), nil
}

func (c *conn) beginCancelAll(k *call) *fault {
	k.args.Kind = exchange.CancelAll
	return c.ask(k, engine.Request{Command: k.args.Command})
}

func (c *conn) answerCancelAll(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.settle(ctx, k); err != nil {
		return nil, err
	}
	r, count := &k.came[0].Result, 0
	if r.Answer != nil {
		count = r.Answer.Canceled
	}
	return jsontext.Number(c.seq(b, r.Seq, k.mark.Seq), "count", count), nil
}

func (c *conn) beginSwitch(k *call) *fault {
	k.args.Kind, k.args.More = exchange.SetSwitch, &exchange.CommandMore{Seconds: k.args.seconds}
	return c.ask(k, engine.Request{Command: k.args.Command})
}

func (c *conn) answerSwitch(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.settle(ctx, k); err != nil {
		return nil, err
	}
	b = c.seq(b, k.came[0].Seq, k.mark.Seq)
	return jsontext.Number(b, "seconds", k.args.seconds), nil
}

// beginOrder asks the engine which order the request names, and whose order it is.
func (c *conn) beginOrder(k *call) *fault {
	k.args.Kind = exchange.QueryOrder
	return c.ask(k, engine.Request{Command: k.args.Command, OwnOnly: true})
}

func (c *conn) answerOrder(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.settle(ctx, k); err != nil {
		return nil, err
	}
	id := k.asked[0].Names(&k.came[0].Result)
	o, seq, err := c.door.orderNow(ctx, k.orderQuery(id, max(k.mark.Seq, c.sentSeq)))
	if err != nil {
		return nil, err
	}
	return memberOrder(c.seq(b, 0, seq), &o.OrderDetail, o.Fills), nil
}

// beginFills starts a query for fills, from the view or, for older ones, from the database.
func (c *conn) beginFills(k *call) *fault {
	a := &k.args
	a.Kind = exchange.ListFills
	if a.hasAfter {
		a.More = &exchange.CommandMore{After: a.after, HasAfter: true}
	}
	return c.ask(k, engine.Request{Command: a.Command})
}

func (c *conn) answerFills(ctx context.Context, k *call, b []byte) ([]byte, error) {
	if err := c.settle(ctx, k); err != nil {
		return nil, err
	}
	r := &k.came[0].Result
	if r.Answer == nil || r.Answer.Fills == nil {
		return nil, unseen()
	}
	v := r.Answer.Fills
	b = jsontext.Number(c.seq(b, 0, k.mark.Seq), "last_fill", v.Last)
	return jsontext.Bool(memberFills(b, v.Fills), "more", v.More != 0), nil
}
