package torture

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
	// more than two heartbeats, because earlier confirmations may still be in transit
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

// answered reports whether a reply contains information about an order. A leader that has lost its role may reply
// instead that the server ends.
func answered(reply []byte) bool {
	answers, err := wire.ParseReply(reply)
	return err == nil && len(answers) == 1 && answers[0].Kind == "status"
}

// freezeBoth checks that a leader without a majority answers neither orders nor queries. Both are sent on
// connections that were open before.
func (c *cluster) freezeBoth(ctx context.Context) error {
	id, conn, err := c.quietOrder(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, n := range c.standbys() {
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
	return c.heal(ctx)
}

// freezeTrading does the same as freezeBoth for orders only, while clients trade.
func (c *cluster) freezeTrading(ctx context.Context) error {
	for _, n := range c.standbys() {
		n.freeze()
	}
	if err := wait(ctx, heartbeats); err != nil {
		return err
	}
	before := c.Answered()
	if err := wait(ctx, silent); err != nil {
		return err
	}
	if now := c.Answered(); now != before {
		return fmt.Errorf("without a majority the leader answers %d orders", now-before)
	}
	return c.heal(ctx)
}

// quietOrder places a resting order and returns its id and a connection to the leader.
func (c *cluster) quietOrder(ctx context.Context) (id string, conn *client.Conn, err error) {
	c.quietOrders++
	symbol := fmt.Sprintf("%s%d", quietSymbol, c.quietOrders)
	create := new(wire.Create)
	if c.quietOrders == 1 {
		c.Account(create, quietAccount, 1_000_000)
	}
	c.Deposit(create, symbol, []string{quietAccount}, 1)
	if err := c.MustCreate(ctx, create); err != nil {
		return "", nil, err
	}
	c.BulkSent(1)
	answers, err := audit.Ask(ctx, c.At, wire.NewTransactions(quietAccount).Order(symbol, "-1", "5").Append(nil))
	if err != nil {
		return "", nil, err
	}
	if ids, refusal := c.BulkAnswered(answers); len(ids) != 1 {
		return "", nil, fmt.Errorf("a resting order is rejected: %s", refusal)
	}
	conn, err = audit.Dial(ctx, audit.Target{Addr: c.leader.xml(), Patience: checkPatience})
	return answers[0].ID, conn, err
}

// stale freezes the leader, cancels an order at the new leader, and sends the frozen one a query of the
// order before unfreezing it. The old leader must not answer that the order is open.
func (c *cluster) stale(ctx context.Context) error {
	id, conn, err := c.quietOrder(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	c.leader.freeze()
	err = c.await(ctx, "another node leads", 0, func() (bool, error) {
		for _, n := range c.nodes {
			if n == c.leader {
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
	if err := c.leader.mend(ctx); err != nil {
		return err
	}
	if reply, err := conn.NextReply(); err == nil && answered(reply) && strings.Contains(string(reply), "<open") {
		return fmt.Errorf("a leader that was stopped does not know what another one has changed: %s", reply)
	}
	return nil
}
