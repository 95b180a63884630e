package books

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"outcry/clients/go/client"
	"outcry/clients/go/stream"
)

// DB queries the tables of an exchange.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// truth is the state according to the tables.
type truth struct {
	books    map[string]*stream.Book // by symbol; a book without orders is missing
	orders   map[string]map[client.OrderID]resting
	trades   map[string]uint64 // number of trades by symbol
	accounts map[string]*accountTruth
}

// accountTruth is the state of an account according to the tables.
type accountTruth struct {
	balance, held  client.Cash
	fills          uint64
	open, executed map[client.OrderID]client.Decimal
}

// readTruth reads the tables, which must be complete.
func readTruth(ctx context.Context, db DB, accounts []string) (*truth, error) {
	t := &truth{map[string]*stream.Book{}, map[string]map[client.OrderID]resting{}, map[string]uint64{},
		map[string]*accountTruth{}}
	err := rows(ctx, db, `SELECT sym, id, amount > 0, trim_scale(limit_price * 0.00000001)::text,
			trim_scale(open * 0.00000001)::text FROM outcry.resting_orders`,
		func(r pgx.Rows) error {
			var sym, price, shares string
			var id int64
			var buys bool
			err := r.Scan(&sym, &id, &buys, &price, &shares)
			if err == nil {
				t.addResting(sym, client.OrderID(id), resting{buys, client.MustDecimal(price), client.MustDecimal(shares)})
			}
			return err
		})
	t.addUp()
	if err == nil {
		err = rows(ctx, db, `SELECT sym, count(*) FROM public.executions GROUP BY sym`, func(r pgx.Rows) error {
			var sym string
			var count int64
			err := r.Scan(&sym, &count)
			t.trades[sym] = uint64(count)
			return err
		})
	}
	for _, id := range accounts {
		if err == nil {
			t.accounts[id], err = readAccount(ctx, db, id)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("books: read the tables: %w", err)
	}
	return t, nil
}

// addResting adds a resting order.
func (t *truth) addResting(sym string, id client.OrderID, r resting) {
	if t.orders[sym] == nil {
		t.orders[sym] = map[client.OrderID]resting{}
	}
	t.orders[sym][id] = r
}

// addUp computes the books from the orders.
func (t *truth) addUp() {
	for sym, all := range t.orders {
		bids, asks := map[client.Decimal]client.Decimal{}, map[client.Decimal]client.Decimal{}
		for _, r := range all {
			side := asks
			if r.buys {
				side = bids
			}
			side[r.price] = side[r.price].Add(r.shares)
		}
		b := &stream.Book{}
		for price, shares := range bids {
			b.Change([]stream.Level{{Price: price, Shares: shares}}, nil)
		}
		for price, shares := range asks {
			b.Change(nil, []stream.Level{{Price: price, Shares: shares}})
		}
		t.books[sym] = b
	}
}

// readAccount reads the state of an account.
func readAccount(ctx context.Context, db DB, id string) (*accountTruth, error) {
	a := &accountTruth{open: map[client.OrderID]client.Decimal{}, executed: map[client.OrderID]client.Decimal{}}
	found := false
	err := rows(ctx, db, `SELECT balance::text, held::text, fills FROM public.accounts WHERE id = $1`,
		func(r pgx.Rows) error {
			found = true
			return r.Scan(&a.balance, &a.held, &a.fills)
		}, id)
	if err == nil && !found {
		err = fmt.Errorf("there is no account %s", id)
	}
	if err == nil {
		err = rows(ctx, db, `SELECT id, open::text, executed::text FROM public.orders WHERE account = $1`,
			func(r pgx.Rows) error {
				var id int64
				var open, executed client.Decimal
				var texts [2]string
				err := r.Scan(&id, &texts[0], &texts[1])
				if err == nil {
					open, executed = client.MustDecimal(texts[0]), client.MustDecimal(texts[1])
				}
				if open.Sign() != 0 {
					a.open[client.OrderID(id)] = open
				}
				if executed.Sign() != 0 {
					a.executed[client.OrderID(id)] = executed
				}
				return err
			}, id)
	}
	return a, err
}

// rows runs a query and calls do for each row.
func rows(ctx context.Context, db DB, sql string, do func(pgx.Rows) error, args ...any) error {
	r, err := db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		if err := do(r); err != nil {
			return err
		}
	}
	return r.Err()
}
