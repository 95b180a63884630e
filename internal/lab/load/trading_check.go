package load

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"

	"outcry/clients/go/client"
)

// askedAtOnce is how many orders one frame queries.
const askedAtOnce = 200

// verdict collects the outcome of the queries.
type verdict struct {
	*trading
	traded *Traded

	mu          sync.Mutex // guards the fields below, and traded
	first, last client.OrderID
	found       uint64
	failure     error
}

// check queries every order by its ref, over the connection that sent it.
func (t *trading) check(ctx context.Context, r *Traded) error {
	v := &verdict{trading: t, traded: r, first: math.MaxUint64}
	var asking sync.WaitGroup
	for _, x := range t.traders {
		asking.Go(func() {
			for _, account := range []string{x.buyer, x.seller} {
				if err := v.askAll(ctx, x, account); err != nil {
					v.mu.Lock()
					v.failure = err
					v.mu.Unlock()
				}
			}
		})
	}
	asking.Wait()
	if v.found > 0 {
		r.Others = uint64(v.last-v.first) + 1 - v.found
	}
	return v.failure
}

// askAll queries the orders of one account of a trader.
func (v *verdict) askAll(ctx context.Context, x *trader, account string) error {
	var orders []order
	var questions []client.Command
	for i, o := range x.orders {
		if (o.number%2 == 0) == (account == x.buyer) {
			questions = append(questions, client.QueryRef(account, v.ref(o.number)))
			orders = append(orders, o)
		}
		if len(questions) == 0 || len(questions) < askedAtOnce && i < len(x.orders)-1 {
			continue
		}
		results, err := x.Do(ctx, questions...)
		if err != nil {
			return fmt.Errorf("load: query orders: %w", err)
		}
		for n := range results {
			if err := v.judge(orders[n], &results[n]); err != nil {
				return err
			}
		}
		orders, questions = orders[:0], questions[:0]
	}
	return nil
}

// judge compares the first answer to an order with the exchange's current answer. It returns an error if
// the exchange gives no usable answer.
func (v *verdict) judge(o order, now *client.Result) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, found := v.traded, now.Status.Order
	if now.Refused != nil {
		found = 0
		if !strings.Contains(now.Refused.Text, "has no order") && !strings.Contains(now.Refused.Text, "is no order") {
			return fmt.Errorf("load: query orders: %w", now.Err())
		}
	}
	r.Asked++
	if found != 0 {
		v.found++
		v.first, v.last = min(v.first, found), max(v.last, found)
	}
	switch {
	case !o.sure && found != 0:
		r.Done++
	case o.id != 0 && found == 0:
		r.Lost++
		r.Example = fmt.Sprintf("order %v was accepted, but is now answered with: %s", o.id, now.Refused.Text)
	case o.sure && found != o.id:
		r.Doubled++
		r.Example = fmt.Sprintf("%v is order %v, but the reply said %v", now.Command, found, o.id)
	}
	return nil
}
