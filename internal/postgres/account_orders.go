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

// An index of order_log by account and symbol would cost the writer half as much as all that it does for an order:
// each goes to another page. So placed_log has, for each account and batch, which orders came, in several rows if they
// are many: for each symbol, as often as it is another one than before,
//
//	how long its name is (a byte), the name, how many orders there are (2 bytes), their ids (8 bytes each)
//
// Within a symbol ids rise with records, and so with the rows.

// placedOrders are the orders of an account in a batch.
type placedOrders struct {
	full []placedRow // that take no further one

	// The row at hand.
	seq   uint64 // of the last one
	sym   exchange.Symbol
	count int // of the newest orders of sym, the last ones
	at    int // where that is
	b     []byte
}

// add appends an order.
func (p *placedOrders) add(seq uint64, sym exchange.Symbol, id exchange.OrderID) {
	if len(p.b)+itemBytesMax > rowBytesMax {
		p.full = append(p.full, placedRow{seq: int64(p.seq), orders: p.b})
		p.b, p.count = nil, 0
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
	for id, c := range b.accounts {
		if c.placed.count > 0 {
			for _, full := range c.placed.full {
				full.account = id
				b.placedLog.add(&full)
			}
			b.placedLog.add(&placedRow{account: id, seq: int64(c.placed.seq), orders: c.placed.b})
		}
	}
	return &b.placedLog
}

// errPlaced says that a row of placed_log cannot be one.
var errPlaced = errors.New("its orders cannot be read")

// eachPlaced calls f for each symbol of a row, with the ids; for some symbols more than once.
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

// AccountOrders returns orders of an account for a symbol, open and closed, by id, which is the order of their times:
// up to limit, which is at most ViewPageMax. If from or start is not 0, they are the oldest with an id of at
// least from, accepted at start or later; else the newest. end, if it is not 0, is the latest time of them. Times are
// nanoseconds since the Unix epoch. The error says why the tables could not be asked.
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
				ids, err = l.from(first, limit, func(o acceptedOrder) (keep, behind bool) {
					return o.id >= int64(from) && o.at >= start && o.at <= end, o.at > end
				})
			}
			if err != nil {
				return err
			}
		} else {
			first, err := l.firstRow(func(o acceptedOrder) bool { return o.at > end })
			if err == nil {
				first, err = l.rowFrom(first) // other orders of that row may be before
			}
			if err == nil {
				ids, err = l.before(first, limit, func(o acceptedOrder) (keep, behind bool) { return o.at <= end, false })
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

// placedRowsRead is how many rows of placed_log are read at once.
const placedRowsRead = 16

// The seqs of rows. Those of the first schema are below 0.
const (
	placedSeqMin int64 = -1 << 62
	placedSeqMax int64 = 1<<62 - 1
)

// orderList is all orders of an account for a symbol. Their times rise with their ids.
type orderList struct {
	ctx     context.Context
	tx      pgx.Tx
	account exchange.AccountID
	sym     exchange.Symbol
}

// acceptedOrder is an order and its time.
type acceptedOrder struct{ id, at int64 }

// firstRow returns the seq of the first row whose newest order has reached something that rises with ids, or one
// above all.
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

// rowOrders are the orders of a row for the symbol.
type rowOrders struct {
	seq int64
	ids []int64 // none if there is no such row
}

// rowFrom returns the seq of the first row from one on, that one if there is none.
func (l *orderList) rowFrom(seq int64) (int64, error) {
	r, err := l.row(seq, math.MaxInt64)
	if len(r.ids) > 0 {
		seq = r.seq
	}
	return seq, err
}

// row returns the first row from a seq on, below end, that has orders for the symbol; none if there is none.
func (l *orderList) row(from, end int64) (found rowOrders, err error) {
	for {
		all, last, more, err := l.rows(`seq >= $2`, "ASC", from, end, 1)
		if err != nil || len(all) > 0 || !more {
			return append(all, rowOrders{})[0], err
		}
		from = last + 1
	}
}

// rows returns those of up to most rows below end that have orders for the symbol, the seq of the last row that was
// looked at, and whether there may be more.
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

// times calls f for orders, in their order, until it returns false.
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

// from returns the first up to limit orders in the rows from a seq on that are to be kept. None is behind one
// that is behind all.
func (l *orderList) from(seq int64, limit int, fits func(acceptedOrder) (keep, behind bool)) ([]int64, error) {
	return l.collect(`seq >= $2`, "ASC", seq, limit, fits)
}

// before returns the last up to limit orders in the rows up to a seq that are to be kept.
func (l *orderList) before(seq int64, limit int, fits func(acceptedOrder) (keep, behind bool)) ([]int64, error) {
	return l.collect(`seq <= $2`, "DESC", seq, limit, fits)
}

func (l *orderList) collect(
	where, direction string, seq int64, limit int, fits func(acceptedOrder) (keep, behind bool),
) (ids []int64, err error) {
	for more, behind := true, false; more && !behind && len(ids) < limit; {
		var rows []rowOrders
		var last int64
		if rows, last, more, err = l.rows(where, direction, seq, math.MaxInt64, placedRowsRead); err != nil {
			return nil, err
		}
		var page []int64 // the orders of some rows, which are asked for together
		for i, r := range rows {
			if direction == "DESC" {
				slices.Reverse(r.ids)
			}
			if page = append(page, r.ids...); len(ids)+len(page) < limit && i < len(rows)-1 {
				continue
			}
			err := l.times(page, func(o acceptedOrder) bool {
				var keep bool
				if keep, behind = fits(o); keep {
					ids = append(ids, o.id)
				}
				return !behind && len(ids) < limit
			})
			if err != nil {
				return nil, err
			}
			if page = page[:0]; behind || len(ids) == limit {
				break
			}
		}
		if seq = last + 1; direction == "DESC" {
			seq = last - 1
		}
	}
	return ids, nil
}

// firstReached returns the least number from least on, and at most end, from which on something is reached, which rises
// with numbers. probe returns the first number from one on, below end, that is there, and whether it is reached for it;
// true if there is none. So nothing is looked for twice where there is none.
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
