package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// An index of order_log by account and symbol would cost the writer half as much as all its other work for an order,
// because each entry goes to a different page. Instead, placed_log lists, for each account and batch, the ids of the
// orders it placed. A long list is split into several rows. A row is a series of items, with a new item whenever the
// symbol changes:
//
//	length of the symbol's name (1 byte), the name, number of orders (2 bytes), their ids (8 bytes each)
//
// Within a symbol, ids rise with records, and so with the rows.

// placedOrders collects the orders that an account placed in a batch.
type placedOrders struct {
	full []placedRow // rows that have no room for another order

	// The fields below are the row being filled.
	seq   uint64 // record of the newest order
	sym   exchange.Symbol
	count int // orders in the last item, which is for sym
	at    int // offset of that count in b
	b     []byte
}

// add appends an order.
func (p *placedOrders) add(seq uint64, sym exchange.Symbol, id exchange.OrderID) {
	if len(p.b)+itemBytesMax > rowBytesMax {
		p.full = append(p.full, placedRow{seq: int64(p.seq), orders: p.b})
		p.b, p.count = make([]byte, 0, rowBytesMax), 0 // the next row is probably as long
	}
	if p.seq = seq; p.count == 0 || p.sym != sym {
		p.b = append(append(p.b, byte(len(sym))), sym...)
		p.sym, p.count, p.at = sym, 0, len(p.b)
		p.b = append(p.b, 0, 0)
	}
	p.count++
	binary.BigEndian.PutUint16(p.b[p.at:], uint16(p.count))
	p.b = binary.BigEndian.AppendUint64(p.b, uint64(id))
}

// placedRow is a row of placed_log.
type placedRow struct {
	account exchange.AccountID
	seq     int64
	orders  []byte
}

var placedLog = &table[placedRow]{"placed_log", []column[placedRow]{
	text("account", func(r *placedRow) *exchange.AccountID { return &r.account }),
	bigint("seq", func(r *placedRow) *int64 { return &r.seq }),
	{name: "orders", typ: "bytea",
		put:  func(b []byte, r *placedRow) []byte { return appendBytes(b, r.orders) },
		scan: func(r *placedRow) any { return &r.orders }},
}}

// placedBy appends the rows of the batch's orders.
func (b *batch) placedBy() *copyRows[placedRow] {
	b.placedLog.reset()
	for _, a := range b.accounts.all {
		if placed := &a.value.placed; placed.count > 0 {
			for _, full := range placed.full {
				full.account = a.name
				b.placedLog.add(&full)
			}
			b.placedLog.add(&placedRow{account: a.name, seq: int64(placed.seq), orders: placed.b})
		}
	}
	return &b.placedLog
}

// errPlaced: a row of placed_log is malformed.
var errPlaced = errors.New("its orders cannot be read")

// eachPlaced calls f for each item of a row, with its symbol and order ids. A symbol may have several items.
func (r *placedRow) eachPlaced(f func(sym exchange.Symbol, ids []int64)) error {
	for b := r.orders; len(b) > 0; {
		name := 1 + int(b[0])
		if len(b) < name+2 {
			return errPlaced
		}
		sym, n := exchange.Symbol(b[1:name]), int(binary.BigEndian.Uint16(b[name:]))
		if b = b[name+2:]; len(b) < 8*n {
			return errPlaced
		}
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = int64(binary.BigEndian.Uint64(b[8*i:]))
		}
		b = b[8*n:]
		f(sym, ids)
	}
	return nil
}

// AccountOrders returns orders of an account for a symbol, open and closed, sorted by id and so by time. It
// returns at most limit orders, and limit is at most ViewPageMax. If from or start is not 0, it returns the
// oldest orders with an id of at least from that were accepted at start or later; else the newest ones. If end
// is not 0, later orders are left out. Times are nanoseconds since the Unix epoch. The error says why the
// tables could not be read.
func (h *History) AccountOrders(
	ctx context.Context, account exchange.AccountID, sym exchange.Symbol, from exchange.OrderID, start, end int64,
	limit int,
) (all []exchange.OrderDetail, err error) {
	if end == 0 {
		end = math.MaxInt64
	}
	limit = min(limit, exchange.ViewPageMax)
	err = h.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		all = nil
		l := orderList{ctx, tx, account, sym}
		var ids []int64
		if from != 0 || start != 0 {
			first, err := l.firstRow(func(o acceptedOrder) bool { return o.id >= int64(from) && o.at >= start })
			if err == nil {
				ids, err = l.from(first, limit, func(o acceptedOrder) (keep, past bool) {
					return o.id >= int64(from) && o.at >= start && o.at <= end, o.at > end
				})
			}
			if err != nil {
				return err
			}
		} else {
			first, err := l.firstRow(func(o acceptedOrder) bool { return o.at > end })
			if err == nil {
				first, err = l.rowFrom(first) // the row may begin with orders that are too old
			}
			if err == nil {
				ids, err = l.before(first, limit, func(o acceptedOrder) (keep, past bool) { return o.at <= end, false })
			}
			if err != nil {
				return err
			}
		}
		return eachDetail(ctx, tx, asNow, 0, ids, func(r *detailRow) { all = append(all, r.detail()) })
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: orders of account %s: %w", account, err)
	}
	return all, nil
}

// placedRowsRead is how many rows of placed_log one query reads.
const placedRowsRead = 16

// Bounds of the column seq. Rows from before placed_log existed have a negative seq.
const (
	placedSeqMin int64 = -1 << 62
	placedSeqMax int64 = 1<<62 - 1
)

// orderList reads the orders of an account for a symbol. Their times rise with their ids.
type orderList struct {
	ctx     context.Context
	tx      pgx.Tx
	account exchange.AccountID
	sym     exchange.Symbol
}

// acceptedOrder is an order and its time.
type acceptedOrder struct{ id, at int64 }

// firstRow returns the seq of the first row whose newest order satisfies reached, or a seq above that of all
// rows. Once reached is true for an order, it must be true for all later ones.
func (l *orderList) firstRow(reached func(acceptedOrder) bool) (int64, error) {
	first, err := firstReached(0, uint64(placedSeqMax-placedSeqMin), func(from, end uint64) (uint64, bool, error) {
		var newest acceptedOrder
		r, err := l.row(placedSeqMin+int64(from), placedSeqMin+int64(end))
		if err != nil || len(r.ids) == 0 {
			return from, true, err
		}
		err = l.times(r.ids[len(r.ids)-1:], func(o acceptedOrder) bool { newest = o; return true })
		return uint64(r.seq - placedSeqMin), reached(newest), err
	})
	return placedSeqMin + int64(first), err
}

// rowOrders holds the ids of a row's orders for the symbol.
type rowOrders struct {
	seq int64
	ids []int64 // empty if there is no such row
}

// rowFrom returns the seq of the first row at or after seq that has orders for the symbol, or seq if no row
// does.
func (l *orderList) rowFrom(seq int64) (int64, error) {
	r, err := l.row(seq, math.MaxInt64)
	if len(r.ids) > 0 {
		seq = r.seq
	}
	return seq, err
}

// row returns the first row in [from, end) that has orders for the symbol, or a zero rowOrders.
func (l *orderList) row(from, end int64) (found rowOrders, err error) {
	for {
		all, last, more, err := l.rows(`seq >= $2`, "ASC", from, end, 1)
		if err != nil || len(all) > 0 || !more {
			return append(all, rowOrders{})[0], err
		}
		from = last + 1
	}
}

// rows reads up to most rows below end and returns those with orders for the symbol. It also returns the seq
// of the last row read, and whether there may be more.
func (l *orderList) rows(where, direction string, seq, end int64, most int) (
	all []rowOrders, last int64, more bool, err error,
) {
	rows, err := l.tx.Query(l.ctx, placedLog.query(` WHERE account = $1 COLLATE "C" AND `+where+
		` AND seq < $5 AND position($3 IN orders) > 0 ORDER BY seq `+direction+` LIMIT $4`),
		l.account, seq, symbolMark(l.sym), most, end)
	if err != nil {
		return nil, 0, false, err
	}
	var row placedRow
	found := 0
	_, err = pgx.ForEachRow(rows, placedLog.into(&row), func() error {
		found++
		last = row.seq
		one := rowOrders{seq: row.seq}
		err := row.eachPlaced(func(sym exchange.Symbol, ids []int64) {
			if sym == l.sym {
				one.ids = append(one.ids, ids...)
			}
		})
		if len(one.ids) > 0 {
			all = append(all, one)
		}
		return err
	})
	return all, last, found == most, err
}

// times calls f with each order and its time, in the order of ids, until f returns false.
func (l *orderList) times(ids []int64, f func(acceptedOrder) bool) error {
	when := orderLog.pick("id", "time", "nanos")
	rows, err := l.tx.Query(l.ctx, `SELECT `+when.list("o")+` FROM unnest($1::bigint[]) WITH ORDINALITY w (id, place)
		JOIN outcry.order_log o ON o.id = w.id ORDER BY w.place`, ids)
	if err != nil {
		return err
	}
	var r record
	more := true
	_, err = pgx.ForEachRow(rows, when.into(&r), func() error {
		more = more && f(acceptedOrder{int64(r.Order), r.Time})
		return nil
	})
	return err
}

// from returns up to limit orders that fits keeps, oldest first, from the row seq on. It stops at the first order for
// which fits returns past: all later orders are then out of range too.
func (l *orderList) from(seq int64, limit int, fits func(acceptedOrder) (keep, past bool)) ([]int64, error) {
	return l.collect(`seq >= $2`, "ASC", seq, limit, fits)
}

// before returns up to limit orders that fits keeps, newest first, from the row seq back. It stops at the
// first order for which fits returns past.
func (l *orderList) before(seq int64, limit int, fits func(acceptedOrder) (keep, past bool)) ([]int64, error) {
	return l.collect(`seq <= $2`, "DESC", seq, limit, fits)
}

func (l *orderList) collect(
	where, direction string, seq int64, limit int, fits func(acceptedOrder) (keep, past bool),
) (ids []int64, err error) {
	for more, past := true, false; more && !past && len(ids) < limit; {
		var rows []rowOrders
		var last int64
		if rows, last, more, err = l.rows(where, direction, seq, math.MaxInt64, placedRowsRead); err != nil {
			return nil, err
		}
		var page []int64 // orders of several rows, whose times one query reads
		for i, r := range rows {
			if direction == "DESC" {
				slices.Reverse(r.ids)
			}
			if page = append(page, r.ids...); len(ids)+len(page) < limit && i < len(rows)-1 {
				continue
			}
			err := l.times(page, func(o acceptedOrder) bool {
				var keep bool
				if keep, past = fits(o); keep {
					ids = append(ids, o.id)
				}
				return !past && len(ids) < limit
			})
			if err != nil {
				return nil, err
			}
			if page = page[:0]; past || len(ids) == limit {
				break
			}
		}
		if seq = last + 1; direction == "DESC" {
			seq = last - 1
		}
	}
	return ids, nil
}

// firstReached returns the least number in [least, end] at which a condition holds, or end; the condition must hold
// for all higher numbers as well. probe returns the first existing number in [from, end), and whether the condition
// holds there; if no number exists in that range, it returns true. A range without numbers is therefore probed only
// once.
func firstReached(
	least, end uint64, probe func(from, end uint64) (there uint64, reached bool, err error),
) (uint64, error) {
	for least < end {
		middle := least + (end-least)/2
		there, reached, err := probe(middle, end)
		switch {
		case err != nil:
			return 0, err
		case reached:
			end = middle
		default:
			least = there + 1
		}
	}
	return least, nil
}
