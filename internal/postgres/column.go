package postgres

import (
	"encoding/binary"
	"math/big"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// column describes one column of a table: its name, its type, and the part of R, the row in memory, that it
// holds. All code that reads or writes the column uses this description.
type column[R any] struct {
	name string
	typ  string // the type's name in Postgres
	null bool   // the column may be NULL, which is read as the zero value

	put  func(b []byte, r *R) []byte // appends the value in Postgres' binary format
	scan func(r *R) any              // returns the destination for Scan
}

// mayBeNull returns the column as one that may be NULL. Writes never store NULL in it.
func (c column[R]) mayBeNull() column[R] { c.null = true; return c }

// orNull returns a variant of the column that stores the zero value as NULL.
func (c column[R]) orNull() column[R] {
	put := c.put
	c.null, c.put = true, func(b []byte, r *R) []byte {
		at := len(b)
		b = put(b, r)
		for i := len(b) - 1; i >= at+4; i-- { // bytes of the value, after its length; the last ones are rarely 0
			if b[i] != 0 {
				return b
			}
		}
		return appendNull(b[:at])
	}
	return c
}

// table describes a table of the exchange whose rows are of type R in memory. Its columns are in the order in
// which the migrations make them. TestTheDescriptionIsWhatTheMigrationsMake compares every description with a
// real table.
type table[R any] struct {
	name    string
	columns []column[R]
}

// pick returns the table with only the named columns.
func (t *table[R]) pick(columns ...string) *table[R] {
	part := &table[R]{name: t.name}
	for _, want := range columns {
		i := slices.IndexFunc(t.columns, func(c column[R]) bool { return c.name == want })
		part.columns = append(part.columns, t.columns[i])
	}
	return part
}

// opening returns the table that holds these columns of the state at which history begins. It is a copy
// without the original's constraints.
func (t *table[R]) opening(columns ...string) *table[R] {
	copied := t.pick(columns...)
	copied.name = "opening_" + t.name
	for i := range copied.columns {
		copied.columns[i] = copied.columns[i].mayBeNull()
	}
	return copied
}

// names returns the columns' names.
func (t *table[R]) names() (names []string) {
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return names
}

// list returns the columns for a SELECT, each prefixed with the table's alias.
func (t *table[R]) list(alias string) string {
	return alias + "." + strings.Join(t.names(), ", "+alias+".")
}

// query returns a SELECT of all rows. clauses, such as a WHERE, follow the table's name.
func (t *table[R]) query(clauses string) string {
	return "SELECT " + strings.Join(t.names(), ", ") + " FROM " + named(t.name) + clauses
}

// into returns destinations in r for a Scan of the columns of list or query.
func (t *table[R]) into(r *R) (all []any) {
	for i := range t.columns {
		all = append(all, t.columns[i].scan(r))
	}
	return all
}

// describe returns the table as a backup lists it, with each column's type and whether it may be NULL.
func (t *table[R]) describe() (d Table, types []string, nulls []bool) {
	d = Table{Name: t.name, Columns: t.names()}
	for _, c := range t.columns {
		types, nulls = append(types, c.typ), append(nulls, c.null)
	}
	return d, types, nulls
}

// copyRows collects rows in COPY's binary format. Each row is its number of columns and then the values.
type copyRows[R any] struct {
	table *table[R]
	put   func(b []byte, r *R) []byte // appends all values, faster than the columns do; nil in most tables
	n     int
	b     []byte
}

// newCopy returns an empty copyRows for a table.
func newCopy[R any](t *table[R]) copyRows[R] {
	c := copyRows[R]{table: t}
	c.reset()
	return c
}

// newFastCopy is newCopy with a function that appends the values of all columns.
func newFastCopy[R any](t *table[R], put func(b []byte, r *R) []byte) copyRows[R] {
	c := newCopy(t)
	c.put = put
	return c
}

// reset removes all rows.
func (c *copyRows[R]) reset() { c.n, c.b = 0, append(c.b[:0], copyHeader...) }

// add appends a row.
func (c *copyRows[R]) add(r *R) {
	c.n++
	c.b = binary.BigEndian.AppendUint16(c.b, uint16(len(c.table.columns)))
	if c.put != nil {
		c.b = c.put(c.b, r)
		return
	}
	for i := range c.table.columns {
		c.b = c.table.columns[i].put(c.b, r)
	}
}

// sql returns the COPY statement for the rows.
func (c *copyRows[R]) sql() string {
	return "COPY " + named(c.table.name) + " (" + strings.Join(c.table.names(), ", ") + ") FROM STDIN (FORMAT binary)"
}

// The functions below make columns. Most hold one field of the row, which field returns. Those with the suffix
// Of have functions that get and set the value.

func bigint[R any, T ~int64 | ~uint64](name string, field func(*R) *T) column[R] {
	return bigintOf(name, func(r *R) int64 { return int64(*field(r)) }, func(r *R, v int64) { *field(r) = T(v) })
}

func bigintOf[R any](name string, get func(*R) int64, set func(*R, int64)) column[R] {
	return column[R]{name: name, typ: "bigint",
		put:  func(b []byte, r *R) []byte { return appendBigint(b, get(r)) },
		scan: func(r *R) any { return intScan(func(v pgtype.Int8) { set(r, v.Int64) }) }}
}

// seconds makes a column with a time in whole seconds; in memory it is nanoseconds.
func seconds[R any](name string, field func(*R) *int64) column[R] {
	return bigintOf(name, func(r *R) int64 { return exchange.Seconds(*field(r)) },
		func(r *R, v int64) { *field(r) = v * exchange.Second })
}

// nanos makes the column with the nanoseconds of a time beyond its whole seconds, which are in another column. It
// is NULL in rows of old programs, which recorded only seconds. If whole is not nil, scanning a row sets its bool
// to whether the column is NULL.
func nanos[R any](name string, field func(*R) *int64, whole func(*R) *bool) column[R] {
	return column[R]{name: name, typ: "integer", null: true,
		put: func(b []byte, r *R) []byte { return appendInt(b, nanosOf(*field(r))) },
		scan: func(r *R) any {
			return intScan(func(v pgtype.Int8) {
				*field(r) += v.Int64
				if whole != nil {
					*whole(r) = !v.Valid
				}
			})
		}}
}

// nanosOf returns the nanoseconds that a time has beyond whole seconds.
func nanosOf(at int64) int32 { return int32(at - exchange.Seconds(at)*exchange.Second) }

// amount makes a column with an order's shares: negative for a sell.
func amount[R any](name string, fields func(*R) (*exchange.Side, *exchange.Shares)) column[R] {
	return bigintOf(name,
		func(r *R) int64 {
			side, shares := fields(r)
			return signed(*side, *shares)
		},
		func(r *R, v int64) {
			side, shares := fields(r)
			*side, *shares = exchange.Buy, exchange.Shares(v)
			if v < 0 {
				*side, *shares = exchange.Sell, exchange.Shares(-v)
			}
		})
}

// signed returns shares as a column of amount has them.
func signed(side exchange.Side, shares exchange.Shares) int64 {
	if side == exchange.Sell {
		return -int64(shares)
	}
	return int64(shares)
}

func integer[R any, T ~int | ~int32](name string, field func(*R) *T) column[R] {
	return integerOf(name, func(r *R) int32 { return int32(*field(r)) }, func(r *R, v int32) { *field(r) = T(v) })
}

func integerOf[R any](name string, get func(*R) int32, set func(*R, int32)) column[R] {
	return column[R]{name: name, typ: "integer",
		put:  func(b []byte, r *R) []byte { return appendInt(b, get(r)) },
		scan: func(r *R) any { return intScan(func(v pgtype.Int8) { set(r, int32(v.Int64)) }) }}
}

func smallintOf[R any](name string, get func(*R) int16, set func(*R, int16)) column[R] {
	return column[R]{name: name, typ: "smallint",
		put:  func(b []byte, r *R) []byte { return appendSmallint(b, get(r)) },
		scan: func(r *R) any { return intScan(func(v pgtype.Int8) { set(r, int16(v.Int64)) }) }}
}

func text[R any, T ~string](name string, field func(*R) *T) column[R] {
	return column[R]{name: name, typ: "text",
		put:  func(b []byte, r *R) []byte { return appendText(b, string(*field(r))) },
		scan: func(r *R) any { return textScan(func(v pgtype.Text) { *field(r) = T(v.String) }) }}
}

func boolean[R any](name string, field func(*R) *bool) column[R] {
	return booleanOf(name, func(r *R) bool { return *field(r) }, func(r *R, v bool) { *field(r) = v })
}

func booleanOf[R any](name string, get func(*R) bool, set func(*R, bool)) column[R] {
	return column[R]{name: name, typ: "boolean",
		put:  func(b []byte, r *R) []byte { return appendBool(b, get(r)) },
		scan: func(r *R) any { return boolScan(func(v pgtype.Bool) { set(r, v.Bool) }) }}
}

func cash[R any](name string, field func(*R) *exchange.Cash) column[R] {
	return column[R]{name: name, typ: "numeric",
		put:  func(b []byte, r *R) []byte { return appendCash(b, *field(r)) },
		scan: func(r *R) any { return (*cashColumn)(field(r)) }}
}

func position[R any](name string, field func(*R) *exchange.Position) column[R] {
	return column[R]{name: name, typ: "numeric",
		put:  func(b []byte, r *R) []byte { return appendPosition(b, *field(r)) },
		scan: func(r *R) any { return (*sharesColumn)(field(r)) }}
}

// readOnly makes a column that COPY never writes; other statements do.
func readOnly[R any](name, typ string, scan func(r *R) any) column[R] {
	return column[R]{name: name, typ: typ, scan: scan}
}

// These functions receive a column's value when it is scanned, with NULL as the zero value.
type (
	intScan  func(pgtype.Int8)
	textScan func(pgtype.Text)
	boolScan func(pgtype.Bool)
	uuidScan func(pgtype.UUID)
)

// These functions receive a column's value when it is scanned, and may refuse it.
type (
	textErrScan func(pgtype.Text) error
	numericScan func(pgtype.Numeric) error
)

// ScanText implements pgtype.TextScanner.
func (f textErrScan) ScanText(v pgtype.Text) error { return f(v) }

// ScanNumeric implements pgtype.NumericScanner.
func (f numericScan) ScanNumeric(v pgtype.Numeric) error { return f(v) }

// ScanInt64 implements pgtype.Int64Scanner.
func (f intScan) ScanInt64(v pgtype.Int8) error { f(v); return nil }

// ScanText implements pgtype.TextScanner.
func (f textScan) ScanText(v pgtype.Text) error { f(v); return nil }

// ScanBool implements pgtype.BoolScanner.
func (f boolScan) ScanBool(v pgtype.Bool) error { f(v); return nil }

// ScanUUID implements pgtype.UUIDScanner.
func (f uuidScan) ScanUUID(v pgtype.UUID) error { f(v); return nil }

// These types scan a numeric column into exact units.
type (
	cashColumn     exchange.Cash
	sharesColumn   exchange.Position
	notionalColumn exchange.Turnover
	priceColumn    exchange.Price
)

// ScanNumeric implements pgtype.NumericScanner.
func (c *cashColumn) ScanNumeric(n pgtype.Numeric) (err error) {
	*(*exchange.Int128)(c), err = int128(n, scaleCash)
	return err
}

// ScanNumeric implements pgtype.NumericScanner.
func (c *sharesColumn) ScanNumeric(n pgtype.Numeric) (err error) {
	*(*exchange.Int128)(c), err = int128(n, scaleShares)
	return err
}

// ScanNumeric implements pgtype.NumericScanner.
func (c *notionalColumn) ScanNumeric(n pgtype.Numeric) error {
	units, err := wholeUnits(n, scaleCash)
	if err != nil {
		return err
	}
	rounds, rest := units.QuoRem(units, fromInt128(exchange.Int128(exchange.CashTotalMax)), new(big.Int))
	*c = notionalColumn{Rounds: rounds.Uint64(), Rest: exchange.Cash(toInt128(rest))}
	return nil
}

// ScanNumeric implements pgtype.NumericScanner.
func (c *priceColumn) ScanNumeric(n pgtype.Numeric) error {
	v, err := int128(n, scaleShares)
	*c = priceColumn(v.Lo)
	return err
}
