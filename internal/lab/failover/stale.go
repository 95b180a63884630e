package failover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outcry/clients/go/client"
	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/audit"
)

const (
	// heartbeats is longer than two heartbeats: earlier confirmations may still be on their way.
	heartbeats = 150 * time.Millisecond
	// silent is how long a leader without a majority is watched.
	silent = 2 * time.Second

	quietAccount, quietSymbol = "77", "QUIET"
)

// ask sends a query of an order on an open connection.
func ask(conn *client.Conn, id string, patience time.Duration) error {
	conn.SendFrame(wire.NewTransactions(quietAccount).Query(id).Append(nil))
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return conn.Flush()
}

// answered reports whether a reply contains information about an order. A leader that has lost its role
// may instead say that it ends.
func answered(reply []byte) bool {
	answers, err := wire.ParseReply(reply)
	return err == nil && len(answers) == 1 && answers[0].Kind == "status"
}

// freezeBoth checks that a leader without a majority answers neither orders nor queries. Both are sent on
// connections that were open before.
func freezeBoth(r *runner, ctx context.Context, leader *node) error {
	id, conn, err := r.quietOrder(ctx, leader)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, n := range r.standbys(leader) {
		n.freeze()
	}
	if err := wait(ctx, heartbeats); err != nil {
		return err
	}
	if err := ask(conn, id, silent); err != nil {
		return err
	}
	if reply, err := conn.NextReply(); err == nil && answered(reply) {
		return fmt.Errorf("without a majority the leader answers a query: %s", reply)
	}
	return r.mend(ctx)
}

// freezeTrading does the same as freezeBoth for orders only, while clients trade.
func freezeTrading(r *runner, ctx context.Context, leader *node) error {
	for _, n := range r.standbys(leader) {
		n.freeze()
	}
	if err := wait(ctx, heartbeats); err != nil {
		return err
	}
	before := r.Answered()
	if err := wait(ctx, silent); err != nil {
		return err
	}
	if now := r.Answered(); now != before {
		return fmt.Errorf("without a majority the leader answers %d orders", now-before)
	}
	return r.mend(ctx)
}

// quietOrder places a resting order and returns its id and a connection to the leader.
func (r *runner) quietOrder(ctx context.Context, leader *node) (id string, conn *client.Conn, err error) {
	r.quietOrders++
	symbol := fmt.Sprintf("%s%d", quietSymbol, r.quietOrders)
	c := new(wire.Create)
	if r.quietOrders == 1 {
		r.Account(c, quietAccount, 1_000_000)
	}
	r.Deposit(c, symbol, []string{quietAccount}, 1)
	if err := r.MustCreate(ctx, c); err != nil {
		return "", nil, err
	}
	r.BulkSent(1)
	answers, err := audit.Ask(ctx, r.At, wire.NewTransactions(quietAccount).Order(symbol, "-1", "5").Append(nil))
	if err != nil {
		return "", nil, err
	}
	if ids, refusal := r.BulkTold(answers); len(ids) != 1 {
		return "", nil, fmt.Errorf("a resting order is rejected: %s", refusal)
	}
	conn, err = audit.Dial(ctx, audit.Target{Addr: leader.xml(), Patience: checkPatience})
	return answers[0].ID, conn, err
}

// stale freezes the leader, cancels an order at the new leader, and sends the frozen one a query of the
// order before unfreezing it. The old leader must not answer that the order is open.
func stale(r *runner, ctx context.Context, leader *node) error {
	id, conn, err := r.quietOrder(ctx, leader)
	if err != nil {
		return err
	}
	defer conn.Close()
	leader.freeze()
	err = r.await(ctx, "another node leads", 0, func() (bool, error) {
		for _, n := range r.nodes {
			if n == leader {
				continue
			}
			if v, err := n.look(ctx); err == nil && v.Role == leads {
				to := audit.Target{Addr: n.xml(), Patience: checkPatience}
				answers, err := audit.Ask(ctx, to, wire.NewTransactions(quietAccount).Cancel(id).Append(nil))
				return err == nil && len(answers) == 1 && answers[0].Kind == "canceled", nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if err := ask(conn, id, silent); err != nil {
		return err
	}
	if err := leader.mend(ctx); err != nil {
		return err
	}
	if reply, err := conn.NextReply(); err == nil && answered(reply) && strings.Contains(string(reply), "<open") {
		return fmt.Errorf("a leader that was stopped tells of what another one has changed: %s", reply)
	}
	return nil
}
