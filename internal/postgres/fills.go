package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// The executions of an account are numbered 1, 2, 3 and so on: by journal record, within a record by fill, and for one
// fill the resting side first. A row for each would cost the writer about as much as all other rows. So fill_log
// lists, for each account and batch, the account's executions in a few bytes each. A long list is split into several
// rows. A row is a byte 0, and then for each execution, as varints:
//
//	twice the difference between its taker's id and the preceding one (zigzag), 1 more if the account was the taker's
//	twice n, 1 more if the symbol differs from the preceding one; then the symbol's length and its bytes
//
// Rows from before schema 10 begin without the 0, which cannot be a first difference. They have n in place of
// twice n, and no symbols.

// rowBytesMax bounds the bytes of a row of fill_log or placed_log. Postgres compresses rows of more than 2,032
// bytes and stores them elsewhere, which cost a tenth of all its work for an order. itemBytesMax is the
// maximum size of one item.
const (
	rowBytesMax  = 1900
	itemBytesMax = 2*binary.MaxVarintLen64 + 1 + exchange.SymbolCharsMax
)

// accountFills collects executions of an account in the order of their numbers.
type accountFills struct {
	n    uint32
	full []fillPart // rows that have no room for another execution

	// The fields below are the row being filled.
	b     []byte
	taker exchange.OrderID // taker of the newest execution
	sym   exchange.Symbol  // symbol of the newest execution
}

// fillPart is one finished row of accountFills.
type fillPart struct {
	last uint32 // number of the row's newest execution within the batch
	b    []byte
}

// rows appends the account's rows to the copyRows to. The first execution gets the number before+1.
func (f *accountFills) rows(to *copyRows[fillRow], account exchange.AccountID, before uint64) {
	if f.n == 0 {
		return
	}
	first := uint32(0)
	for _, part := range append(f.full, fillPart{f.n, f.b}) {
		to.add(&fillRow{account: account, last: before + uint64(part.last), count: part.last - first, fills: part.b})
		first = part.last
	}
}

// add appends execution n of the order taker. isTaker reports whether the account is the taker's or the
// resting order's.
func (f *accountFills) add(taker exchange.OrderID, n int, isTaker bool, sym exchange.Symbol) {
	if len(f.b)+itemBytesMax > rowBytesMax {
		f.full = append(f.full, fillPart{f.n, f.b})
		f.b, f.taker, f.sym = make([]byte, 0, rowBytesMax), 0, ""
	}
	f.n++
	if len(f.b) == 0 {
		f.b = append(f.b, 0)
	}
	away := int64(taker) - int64(f.taker)
	side := uint64(0)
	if isTaker {
		side = 1
	}
	f.taker = taker
	f.b = binary.AppendUvarint(f.b, uint64(away<<1^away>>63)<<1|side)
	if f.sym == sym {
		f.b = binary.AppendUvarint(f.b, uint64(n)<<1)
		return
	}
	f.sym = sym
	f.b = binary.AppendUvarint(f.b, uint64(n)<<1|1)
	f.b = append(append(f.b, byte(len(sym))), sym...)
}

// symbolMark returns the bytes that name a symbol in fill_log and placed_log. A row without them has no item
// for the symbol. A row with them may have one.
func symbolMark(sym exchange.Symbol) []byte { return append([]byte{byte(len(sym))}, sym...) }

// accountFill identifies an execution of an account.
type accountFill struct {
	taker   exchange.OrderID
	n       int
	isTaker bool
	sym     exchange.Symbol // empty in rows from before schema 10
	number  uint64          // number of the execution in the account, if the reader has set it
}

// errFills: a row of fill_log is malformed.
var errFills = errors.New("its fills cannot be read")

// readFills decodes a row that accountFills.add encoded, and calls f for each execution until f returns false.
func readFills(b []byte, f func(accountFill) bool) error {
	var at accountFill
	named := len(b) > 0 && b[0] == 0
	if named {
		b = b[1:]
	}
	for len(b) > 0 {
		away, n := binary.Uvarint(b)
		if n <= 0 {
			return errFills
		}
		of, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return errFills
		}
		b = b[n+m:]
		if named {
			if of&1 != 0 {
				if len(b) == 0 || len(b) <= int(b[0]) {
					return errFills
				}
				end := 1 + int(b[0])
				at.sym, b = exchange.Symbol(b[1:end]), b[end:]
			}
			of >>= 1
		}
		if of == 0 || of > math.MaxInt32 || named && at.sym == "" {
			return errFills
		}
		at.isTaker = away&1 != 0
		away >>= 1
		at.taker += exchange.OrderID(away>>1) ^ -exchange.OrderID(away&1)
		if at.n = int(of); !f(at) {
			return nil
		}
	}
	return nil
}

// fillRow is a row of fill_log.
type fillRow struct {
	account exchange.AccountID
	last    uint64
	count   uint32
	fills   []byte
}

// first returns the number of the row's first execution.
func (r *fillRow) first() uint64 { return r.last + 1 - uint64(r.count) }

var fillLog = &table[fillRow]{"fill_log", []column[fillRow]{
	text("account", func(r *fillRow) *exchange.AccountID { return &r.account }),
	bigint("last", func(r *fillRow) *uint64 { return &r.last }),
	integerOf("count", func(r *fillRow) int32 { return int32(r.count) },
		func(r *fillRow, v int32) { r.count = uint32(v) }),
	{name: "fills", typ: "bytea",
		put:  func(b []byte, r *fillRow) []byte { return appendBytes(b, r.fills) },
		scan: func(r *fillRow) any { return &r.fills }},
}}

// fillRowsRead is how many rows of fill_log one query reads.
const fillRowsRead = 64

// Fills returns the account's executions with the numbers after+1 to after+most, as of the last batch. first is the
// number of the oldest one above after that the tables have. It is more than after+1 if the executions before it
// belong to records up to exact_after. The error says why the tables could not be read.
func (h *History) Fills(ctx context.Context, id exchange.AccountID, after uint64, most int) (
	fills []exchange.AccountFill, first uint64, err error,
) {
	err = h.ask(ctx, func(ctx context.Context) error {
		place, err := h.exchange(ctx)
		if err != nil {
			return err
		}
		options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		return pgx.BeginTxFunc(ctx, h.pool, options, func(tx pgx.Tx) error {
			counted := place.in(`SELECT fills FROM people.accounts WHERE id = $1`)
			var names []accountFill
			if names, first, err = fillNames(ctx, tx, counted, id, after, most); err != nil {
				return err
			}
			fills, err = readAccountFills(ctx, tx, names)
			return err
		})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("postgres: executions of account %s: %w", id, err)
	}
	return fills, first, nil
}

// fillNames identifies the executions with the numbers after+1 to after+most, and reads the first number above after
// in fill_log. counted is a statement that reads the account's number of executions.
func fillNames(ctx context.Context, tx pgx.Tx, counted string, id exchange.AccountID, after uint64, most int) (
	names []accountFill, first uint64, err error,
) {
	sql := fillLog.query(` WHERE account = $1 COLLATE "C" AND last > $2 ORDER BY last LIMIT $3`)
	last := after + uint64(most)
	for next := after; next < last; {
		rows, err := tx.Query(ctx, sql, id, next, fillRowsRead)
		if err != nil {
			return nil, 0, err
		}
		var row fillRow
		found := 0
		_, err = pgx.ForEachRow(rows, fillLog.into(&row), func() error {
			found++
			number := row.first()
			if first == 0 {
				first = max(number, after+1)
			} else if number != next+1 {
				return errFills
			}
			next = row.last
			return readFills(row.fills, func(f accountFill) bool {
				if f.number = number; number > after && number <= last {
					names = append(names, f)
				}
				number++
				return number <= last
			})
		})
		if err != nil {
			return nil, 0, err
		}
		if found < fillRowsRead {
			break
		}
	}
	if first > 0 {
		return names, first, nil
	}
	var count uint64
	if err := tx.QueryRow(ctx, counted, id).Scan(&count); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, err
	}
	return nil, max(after, count) + 1, nil
}

// readAccountFills reads the executions that names identifies. Each name must have its number.
func readAccountFills(ctx context.Context, tx pgx.Tx, names []accountFill) (
	[]exchange.AccountFill, error,
) {
	if len(names) == 0 {
		return nil, nil
	}
	takers, ns := make([]int64, len(names)), make([]int32, len(names))
	for i, f := range names {
		takers[i], ns[i] = int64(f.taker), int32(f.n)
	}
	rows, err := tx.Query(ctx, `SELECT w.place, `+executionLog.list("x")+`
		FROM unnest($1::bigint[], $2::integer[]) WITH ORDINALITY w (taker, n, place)
		JOIN outcry.execution_log x ON x.order_id = w.taker AND x.n = w.n ORDER BY w.place`, takers, ns)
	if err != nil {
		return nil, err
	}
	fills := make([]exchange.AccountFill, 0, len(names))
	var place int
	var x execution
	_, err = pgx.ForEachRow(rows, append([]any{&place}, executionLog.into(&x)...), func() error {
		if place != len(fills)+1 {
			return fmt.Errorf("execution %d of order %d is missing", ns[len(fills)], takers[len(fills)])
		}
		fills = append(fills, x.fill(names[place-1].number, names[place-1].isTaker))
		return nil
	})
	if err == nil && len(fills) < len(names) {
		err = fmt.Errorf("execution %d of order %d is missing", ns[len(fills)], takers[len(fills)])
	}
	return fills, err
}

// fill returns an execution as seen by the taker's account, or by the account of the resting order.
func (x *execution) fill(number uint64, isTaker bool) exchange.AccountFill {
	f := exchange.AccountFill{N: number, Order: x.resting, Symbol: x.symbol, Side: exchange.Sell,
		Shares: x.Shares, Price: x.Price, Time: x.Time, Trade: x.trade, Maker: !isTaker}
	if isTaker {
		f.Order = x.order
	}
	if isTaker == x.buys {
		f.Side = exchange.Buy
	}
	return f
}
