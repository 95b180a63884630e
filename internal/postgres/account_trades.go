package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// Trades returns executions of an account for a symbol, sorted by number. It returns at most limit of them, and limit
// is at most ViewPageMax. If fromTrade or start is not 0, it returns the oldest executions whose trade number is at
// least fromTrade and whose time is at least start; else the newest ones. If order is not 0, only executions of that
// order are returned. If end is not 0, later executions are left out. Times are nanoseconds since the Unix epoch.
// Executions from before schema 9 can be found only by order; those from before schema 10 have Trade 0. The error says
// why the tables could not be read.
func (h *History) Trades(
	ctx context.Context, account exchange.AccountID, sym exchange.Symbol, fromTrade uint64, order exchange.OrderID,
	start, end int64, limit int,
) (fills []exchange.AccountFill, err error) {
	limit = min(limit, exchange.ViewPageMax)
	if end == 0 {
		end = math.MaxInt64
	}
	err = h.look(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if order != 0 {
			fills, err = tradesOf(ctx, tx, account, sym, order, fromTrade, start, end, limit)
			return err
		}
		l := fillList{ctx, tx, account, sym}
		fills, err = l.trades(fromTrade, start, end, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: trades of account %s for %s: %w", account, sym, err)
	}
	return fills, nil
}

// tradesOf implements Trades for a single order.
func tradesOf(
	ctx context.Context, tx pgx.Tx, account exchange.AccountID, sym exchange.Symbol, order exchange.OrderID,
	fromTrade uint64, start, end int64, limit int,
) (fills []exchange.AccountFill, err error) {
	var owned bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outcry.order_log WHERE id = $1 AND account = $2 AND sym = $3)`,
		int64(order), account, sym).Scan(&owned)
	if err != nil || !owned {
		return nil, err
	}
	parts := []executionPart{{"order_id", "n", true}, {"resting_id", "order_id", false}}
	direction, newest := "ASC", fromTrade == 0 && start == 0
	if newest {
		direction = "DESC"
		slices.Reverse(parts)
	}
	for _, part := range parts {
		rows, err := tx.Query(ctx, executionLog.query(` WHERE `+part.key+` = $1 AND coalesce(trade, 0) >= $2
			AND time * 1000000000 + coalesce(nanos, 0) BETWEEN $3 AND $4 ORDER BY `+part.place+` `+direction+` LIMIT $5`),
			int64(order), int64(fromTrade), start, end, limit-len(fills))
		if err != nil {
			return nil, err
		}
		var x execution
		_, err = pgx.ForEachRow(rows, executionLog.into(&x), func() error {
			fills = append(fills, x.fill(x.number(part.isTaker), part.isTaker))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if newest {
		slices.Reverse(fills)
	}
	return fills, nil
}

// executionPart selects the executions of an order as taker, or as resting order: key is the column with the
// order's id, and place the column that they are sorted by.
type executionPart struct {
	key, place string
	isTaker    bool
}

// fillList reads the executions of an account for a symbol from fill_log, by their numbers. Trade numbers and
// times rise with them.
type fillList struct {
	ctx     context.Context
	tx      pgx.Tx
	account exchange.AccountID
	sym     exchange.Symbol
}

// trades implements Trades for all orders of the account.
func (l *fillList) trades(fromTrade uint64, start, end int64, limit int) ([]exchange.AccountFill, error) {
	var last uint64
	err := l.tx.QueryRow(l.ctx, `SELECT coalesce(max(last), 0) FROM outcry.fill_log WHERE account = $1 COLLATE "C"`,
		l.account).Scan(&last)
	if err != nil {
		return nil, err
	}
	first, past := uint64(1), last+1
	if fromTrade > 0 || start != 0 {
		first, err = l.first(past, func(f *exchange.AccountFill) bool { return f.Trade >= fromTrade && f.Time >= start })
	}
	if err == nil && end != math.MaxInt64 {
		past, err = l.first(past, func(f *exchange.AccountFill) bool { return f.Time > end })
	}
	switch {
	case err != nil:
		return nil, err
	case fromTrade > 0 || start != 0:
		return l.from(first, past, limit)
	}
	return l.before(past, limit)
}

// first returns the least number of an execution that satisfies reached, or end. Once reached is true, it must
// be true for all later executions.
func (l *fillList) first(end uint64, reached func(*exchange.AccountFill) bool) (uint64, error) {
	return firstReached(1, end, func(from, end uint64) (uint64, bool, error) {
		fills, err := l.from(from, end, 1)
		if err != nil || len(fills) == 0 {
			return from, true, err
		}
		return fills[0].N, reached(&fills[0]), nil
	})
}

// mayHave selects the rows of fill_log that may have executions for the symbol: rows that name it, and all
// rows from before schema 10, which name no symbol.
const mayHave = ` AND (get_byte(fills, 0) <> 0 OR position($3 IN fills) > 0) `

// from returns the first executions with a number in [first, past), at most most of them.
func (l *fillList) from(first, past uint64, most int) (fills []exchange.AccountFill, err error) {
	sql := fillLog.query(` WHERE account = $1 COLLATE "C" AND last >= $2 AND last <= coalesce((SELECT last
		FROM outcry.fill_log WHERE account = $1 COLLATE "C" AND last >= $5 ORDER BY last LIMIT 1), $5)` + mayHave +
		`ORDER BY last LIMIT $4`)
	for first < past && len(fills) < most {
		var names []accountFill
		named := 0
		last, found, err := l.rows(sql, first, func(f accountFill) {
			if f.number < first || f.number >= past || named == most {
				return
			}
			names = append(names, f)
			if f.sym != "" { // an execution without a symbol may be for another one
				named++
			}
		}, past-1)
		if err != nil {
			return nil, err
		}
		if fills, err = l.add(fills, names, most); err != nil || found < fillRowsRead {
			return fills, err
		}
		first = last + 1
	}
	return fills, nil
}

// before returns the last executions with a number below past, at most most of them, sorted by number.
func (l *fillList) before(past uint64, most int) (fills []exchange.AccountFill, err error) {
	var last uint64 // number of the last execution in the preceding row
	err = l.tx.QueryRow(l.ctx, `SELECT last FROM outcry.fill_log WHERE account = $1 COLLATE "C" AND last >= $2
		ORDER BY last LIMIT 1`, l.account, past-1).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	sql := fillLog.query(` WHERE account = $1 COLLATE "C" AND last <= $2` + mayHave + `ORDER BY last DESC LIMIT $4`)
	for found := fillRowsRead; err == nil && len(fills) < most && found == fillRowsRead; {
		var names []accountFill
		last, found, err = l.rows(sql, last, func(f accountFill) {
			if f.number < past {
				names = append(names, f)
			}
		})
		slices.SortFunc(names, func(a, b accountFill) int { return int(int64(b.number - a.number)) }) // newest first
		if err == nil {
			fills, err = l.add(fills, names, most)
		}
		last--
	}
	slices.Reverse(fills)
	return fills, err
}

// rows reads a page of rows and calls f for their executions that may be for the symbol. It returns the number
// of the last execution of the last row, and how many rows were read. more are further parameters of the
// statement.
func (l *fillList) rows(sql string, from uint64, f func(accountFill), more ...any) (last uint64, found int, err error) {
	rows, err := l.tx.Query(l.ctx, sql, append([]any{l.account, from, symbolMark(l.sym), fillRowsRead}, more...)...)
	if err != nil {
		return 0, 0, err
	}
	var row fillRow
	_, err = pgx.ForEachRow(rows, fillLog.into(&row), func() error {
		found++
		last = row.last
		number := row.first()
		return readFills(row.fills, func(one accountFill) bool {
			if one.number = number; one.sym == "" || one.sym == l.sym {
				f(one)
			}
			number++
			return true
		})
	})
	return last, found, err
}

// add reads the named executions and appends those for the symbol, until fills has most of them.
func (l *fillList) add(fills []exchange.AccountFill, names []accountFill, most int) ([]exchange.AccountFill, error) {
	for len(names) > 0 && len(fills) < most {
		n := min(len(names), exchange.ViewPageMax)
		some, err := readAccountFills(l.ctx, l.tx, names[:n])
		if err != nil {
			return nil, err
		}
		names = names[n:]
		for i := range some {
			if some[i].Symbol == l.sym && len(fills) < most {
				fills = append(fills, some[i])
			}
		}
	}
	return fills, nil
}
