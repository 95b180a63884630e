package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestTheDescriptionIsWhatTheMigrationsMake compares each table's description with the table in a real
// database: the columns' names, order and types, and whether they may be NULL. It fails for a migration whose
// tables or columns are not in tables.go.
func TestTheDescriptionIsWhatTheMigrationsMake(t *testing.T) {
	type made struct {
		Columns, Types []string
		Nulls          []bool
	}
	s := mustOpen(t, newTables(t))
	rows, err := s.conn.Query(background, `
		SELECT c.relname, array_agg(a.attname ORDER BY a.attnum),
		       array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
		       array_agg(NOT a.attnotnull ORDER BY a.attnum)
		  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		 WHERE c.relkind = 'r' AND c.relnamespace IN ('public'::regnamespace, 'outcry'::regnamespace)
		   AND a.attnum > 0 AND NOT a.attisdropped
		 GROUP BY 1`)
	require.NoError(t, err)
	is := map[string]made{}
	var name string
	var m made
	_, err = pgx.ForEachRow(rows, []any{&name, &m.Columns, &m.Types, &m.Nulls}, func() error {
		is[name], m = m, made{}
		return nil
	})
	require.NoError(t, err)
	delete(is, "schema_version")

	says := map[string]made{}
	for _, described := range allTables {
		table, types, nulls := described.describe()
		says[table.Name] = made{table.Columns, types, nulls}
	}
	for name := range says {
		require.Equal(t, is[name], says[name], "the table %s: what the migrations make, and its description in tables.go",
			name)
	}
	for name := range is {
		require.Contains(t, says, name, "a table that tables.go does not describe")
	}
}

// TestNullStandsForZero writes rows with and without values in the columns that may be NULL.
func TestNullStandsForZero(t *testing.T) {
	s := mustOpen(t, newTables(t))
	rows := newCopy(cancelLog)
	alone, one := record{seq: 7, n: 0}, record{seq: 8, n: 3}
	alone.Order, one.Order, one.Shares = 1, 2, 5
	rows.add(&alone)
	rows.add(&one)
	w := &writer{ctx: background, conn: s.conn}
	copyInto(w, &rows)
	require.NoError(t, w.err)
	var null bool
	require.NoError(t,
		s.conn.QueryRow(background, `SELECT n IS NULL FROM outcry.cancel_log WHERE order_id = 1`).Scan(&null))
	require.True(t, null)
	for _, want := range []record{alone, one} {
		var got record
		row := s.conn.QueryRow(background, cancelLog.query(" WHERE order_id = $1"), want.Order)
		require.NoError(t, row.Scan(cancelLog.into(&got)...))
		require.Equal(t, want, got)
	}
}

// TestRowsAreAppendedWithoutAllocations: a batch has some hundred thousand rows.
func TestRowsAreAppendedWithoutAllocations(t *testing.T) {
	b := newBatch()
	fill, executed := exchange.Fill{Resting: 1, Account: "1", Shares: 6, Price: 5}, execution{symbol: "A"}
	b.plain = record{seq: 9, n: 1, last: 4, Event: exchange.Event{
		Kind: exchange.OrderAccepted, Symbol: "A", Account: "2", Order: 3, Terms: exchange.Terms{Side: exchange.Sell,
			Limit: 5},
		Shares: 6, Time: 7 * exchange.Second, Ref: "r", Fills: []exchange.Fill{fill}}}
	add := func() {
		for _, log := range []*copyRows[record]{&b.orderLog, &b.partLog, &b.cancelLog, &b.haltLog, &b.placementLog, &b.refs} {
			log.reset()
			log.add(&b.plain)
		}
		b.executionLog.reset()
		b.executionLog.add(&executed)
	}
	add() // grows the buffers
	require.Zero(t, testing.AllocsPerRun(100, add))
}
