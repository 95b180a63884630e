package sweep

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"outcry/internal/load"
	"outcry/internal/load/scenario"
	"outcry/internal/wire"
	"outcry/loadtest/harness"
)

// Agree compares what an exchange's tables hold, once Postgres has everything and
// nobody sends any more, with what clients were told: how many orders, cancels,
// accounts and placements there are, that balances and positions add up, and that
// the exchange knows a sample of the orders. The error names the first thing that
// does not agree, or says what could not be asked.
func Agree(ctx context.Context, server *harness.Server, pg *harness.Postgres, told scenario.Tally) error {
	if err := checkTables(ctx, pg.DirectURL(), told); err != nil {
		return err
	}
	return checkOrders(ctx, server.XML, told.IDs)
}

// settleDown has Postgres do at once what it would do in its own time after a history
// that came in a minute instead of in weeks: vacuum, statistics, and a checkpoint. It
// would do so during the run, and what a long history costs could not be told from it.
func settleDown(ctx context.Context, database string) error {
	db, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer db.Close(ctx)
	for _, sql := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("sweep: %s: %w", sql, err)
		}
	}
	return nil
}

// checkTables compares the numbers of rows with what was told, and adds up money
// and shares.
func checkTables(ctx context.Context, database string, told scenario.Tally) error {
	db, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer db.Close(ctx)
	var orders, cancels, created uint64
	var cash, shares, filled bool
	err = db.QueryRow(ctx, `SELECT (SELECT count(*) FROM order_log), (SELECT count(*) FROM cancel_log),
		(SELECT count(*) FROM accounts WHERE id <> $1) + (SELECT count(*) FROM placement_log),
		(SELECT coalesce(sum(balance + held) = sum(opened), true) FROM accounts),
		NOT EXISTS (SELECT FROM symbols s WHERE s.placed <> (SELECT coalesce(sum(p.shares + p.held), 0) FROM positions p WHERE p.sym = s.sym)),
		NOT EXISTS (SELECT FROM resting_orders WHERE open > abs(amount))`, asker).Scan(&orders, &cancels, &created, &cash, &shares, &filled)
	switch {
	case err != nil:
		return fmt.Errorf("sweep: %w", err)
	case orders != told.Accepted:
		return fmt.Errorf("the tables have %d orders, clients were told of %d", orders, told.Accepted)
	case cancels != told.Canceled:
		return fmt.Errorf("the tables have %d cancels, clients were told of %d", cancels, told.Canceled)
	case created != told.Created:
		return fmt.Errorf("the tables have %d accounts and placements, clients were told of %d", created, told.Created)
	case !cash:
		return fmt.Errorf("the tables' balances do not add up to what accounts were opened with")
	case !shares:
		return fmt.Errorf("the tables' positions do not add up to what was placed")
	case !filled:
		return fmt.Errorf("an order has more open than it has shares")
	}
	return nil
}

// checkOrders asks for a sample of the orders that clients were told of.
func checkOrders(ctx context.Context, addr string, ids []uint64) error {
	const most, inFrame = 5000, 50
	if len(ids) == 0 {
		return nil
	}
	ids = ids[:min(len(ids), most)]
	asked := &sample{ids: ids, inFrame: inFrame}
	result, err := load.Closed(ctx, load.Options{Addrs: []string{addr}, Connections: 1, Depth: 4}, func(int) load.Source { return asked })
	switch {
	case err != nil:
		return err
	case result.Errors > 0:
		return fmt.Errorf("%s", result.Examples[0])
	}
	return nil
}

// asker is the account that asks: any may.
const asker = "31415926535"

// sample asks for orders and demands that each is there.
type sample struct {
	opened  bool
	ids     []uint64
	inFrame int
}

func (s *sample) Next() []byte {
	if !s.opened {
		s.opened = true
		return new(wire.Create).Account(wire.Account{ID: asker, Balance: "0"}).Append(nil)
	}
	if len(s.ids) == 0 {
		return nil
	}
	n := min(s.inFrame, len(s.ids))
	t := wire.NewTransactions(asker)
	for _, id := range s.ids[:n] {
		t.Query(strconv.FormatUint(id, 10))
	}
	s.ids = s.ids[n:]
	return t.Append(nil)
}

func (s *sample) Reply(xml []byte) error {
	answers, err := wire.ParseReply(xml)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Error == "account "+asker+" already exists" {
			continue // it has asked before
		}
		if a.Kind != "status" && a.Kind != "created" {
			return fmt.Errorf("order %s, which was accepted, is answered with: %s", a.ID, a.Error)
		}
	}
	return nil
}
