package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/exchange"
	"outcry/internal/postgres"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

// TestVerifyChecksTheJournal damages the journal, or replaces it by another one.
func TestVerifyChecksTheJournal(t *testing.T) {
	t.Parallel()
	whole, other := live(t), live(t)
	restore := kept(t, whole.database)
	for _, harm := range []struct {
		name, check, want string
		do                func(t *testing.T, l *life)
	}{
		{"a byte of the oldest segment", "journal", `\.seg is damaged at offset \d+: record \d+ is not readable`,
			func(t *testing.T, l *life) {
				edit(t, l.segments(t)[0], func(b []byte) { b[200] ^= 1 })
			}},
		{"a byte of the last record", "journal", `\.seg is damaged at offset \d+: record \d+ is not readable`,
			func(t *testing.T, l *life) {
				all := l.segments(t)
				edit(t, all[len(all)-1], func(b []byte) {
					b[lastRecord(b)+30] ^= 1
				})
			}},
		{"a journal that ends too early", "belongs",
			`the database holds records up to \d+, and the journal reaches only to \d+`, func(t *testing.T, l *life) {
				execute(t, l.database, `UPDATE exchange_state SET applied_seq = applied_seq + 1`)
			}},
		{"no journal at all", "belongs", `the database holds records up to \d+ of a journal, and there is no journal in`,
			func(t *testing.T, l *life) {
				require.NoError(t, os.RemoveAll(filepath.Join(l.data, "journal")))
			}},
		{"no journal, and a database that has seen none of it", "belongs",
			`the database holds records up to 0 of a journal, and there is no journal in`, func(t *testing.T, l *life) {
				require.NoError(t, os.RemoveAll(filepath.Join(l.data, "journal")))
				execute(t, l.database, `UPDATE exchange_state SET applied_seq = 0`)
			}},
		{"a segment of another name", "journal", `\.seg`, func(t *testing.T, l *life) {
			require.NoError(t, os.WriteFile(filepath.Join(l.data, "journal", "one.seg"), nil, 0o600))
		}},
		{"an older database", "belongs", `the database holds records up to 0, and the journal begins at \d+`,
			func(t *testing.T, l *life) {
				execute(t, l.database, `UPDATE exchange_state SET applied_seq = 0`)
			}},
		{"another exchange's journal", "belongs", `is [0-9a-f]{32}, and the database follows [0-9a-f]{32}`,
			func(t *testing.T, l *life) {
				// Make the seqs fit, so that only the journal's id differs.
				execute(t, l.database, fmt.Sprintf(`UPDATE exchange_state SET applied_seq = %d`, other.last.Seq))
				l.data = other.data
			}},
	} {
		t.Run(harm.name, func(t *testing.T) {
			l := &life{data: t.TempDir(), database: whole.database}
			require.NoError(t, os.CopyFS(l.data, os.DirFS(whole.data)))
			harm.do(t, l)
			defer restore()
			stdout, stderr, status := l.verified()
			require.Equal(t, cli.ExitError, status, stdout+stderr)
			require.Contains(t, stdout, harm.check+"  not ok\n")
			require.Regexp(t, "^outcry: "+harm.check+": .*"+harm.want, stderr)
		})
	}
}

// lastRecord returns the offset of a segment's last record, before the end mark; see the package comment of
// journal.
func lastRecord(segment []byte) (at int) {
	const header, recordHeader = 64, 24
	for next := header; ; {
		length := int(binary.LittleEndian.Uint32(segment[next:]))
		if length <= recordHeader {
			return at
		}
		at, next = next, next+(length+7)/8*8
	}
}

// TestVerifyGoesOnWhereTheDatabaseIsBehind verifies a longer journal, which ends in the torn tail of a crash,
// with the database of an earlier point in time.
func TestVerifyGoesOnWhereTheDatabaseIsBehind(t *testing.T) {
	t.Parallel()
	l := live(t)
	restore := kept(t, l.database)
	before := l.last.Seq
	p := exchangetest.Start(t, l.data, l.database)
	require.Equal(t, l.last.Digest, p.Loaded.Digest, "a start logs the digest of the stop before it")
	require.Equal(t, before, p.Loaded.Seq)
	trade(t, p, l.r, 2)
	last := p.Stop()
	require.Greater(t, last.Seq, before)
	all := l.segments(t)
	edit(t, all[len(all)-1], func(b []byte) { copy(b[len(b)-10:], "torn") })
	late := lateRef(t, l.database)
	restore()
	stdout, stderr, status := l.verified()
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Regexp(t,
		`a crash left \d+ bytes at offset \d+ of \S+\.seg, which belong to no reply and are removed at the next start: ok`,
		stdout)
	require.Contains(t, stdout, fmt.Sprintf("; later ones replayed: %d: ok\n", last.Seq-before))
	require.Contains(t, stdout, fmt.Sprintf("state    seq %d, digest %s\n", last.Seq, last.Digest))

	// Give an order from before the journal's first record a ref that a later record uses.
	require.EqualValues(t, 1, execute(t, l.database, fmt.Sprintf(`INSERT INTO refs
		SELECT account, '%s', seq, id FROM order_log o
		WHERE account = '%s' AND NOT EXISTS (SELECT FROM refs WHERE order_id = o.id) ORDER BY id LIMIT 1`,
		late.Ref, late.Account)))
	require.EqualValues(t, 1, execute(t, l.database, fmt.Sprintf(`UPDATE order_log o SET ref = f.ref
		FROM refs f WHERE f.ref = '%s' AND f.account = '%s' AND o.id = f.order_id`, late.Ref, late.Account)))
	_, stderr, status = l.verified()
	require.Equal(t, cli.ExitError, status, stderr)
	require.Contains(t, stderr,
		fmt.Sprintf("records: the journal uses ref %s of account %s after record %d, and the database has it from before",
			late.Ref, late.Account, before))
}

// lateRef returns the newest ref in a database.
func lateRef(t *testing.T, database string) (key exchange.RefKey) {
	t.Helper()
	conn, err := pgx.Connect(background, database)
	require.NoError(t, err)
	defer conn.Close(background)
	require.NoError(t, conn.QueryRow(background,
		`SELECT account, ref FROM outcry.refs ORDER BY seq DESC LIMIT 1`).Scan((*string)(&key.Account), (*string)(&key.Ref)))
	return key
}

// downgrade turns a database into a database of the first version of the schema.
const downgrade = pgtest.UndoSchemas + `
	ALTER TABLE accounts DROP COLUMN seq; ALTER TABLE symbols DROP COLUMN seq;
	ALTER TABLE order_log DROP COLUMN seq; ALTER TABLE cancel_log DROP COLUMN seq;
	ALTER TABLE exchange_state DROP COLUMN history_after, DROP COLUMN orders_after;
	ALTER TABLE symbols DROP COLUMN halted_at, DROP COLUMN halt_reason; ALTER TABLE cancel_log DROP COLUMN n;
	DROP TABLE halt_log, part_log, refs, market, placement_log;
	DROP TABLE opening_accounts, opening_symbols, opening_positions, opening_resting_orders;
	UPDATE outcry_schema_version SET version = 1`

func TestVerifySaysWhatAnUpgradedDatabaseCannotProve(t *testing.T) {
	t.Parallel()
	l := live(t)
	execute(t, l.database, downgrade)
	_, stderr, status := l.verified()
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr,
		fmt.Sprintf("its schema has version 1, this program needs %d; a start of outcryd brings it there",
			postgres.SchemaVersion()))

	p := exchangetest.Start(t, l.data, l.database)
	trade(t, p, l.r, 10)
	cancelOne(t, p, "9")
	cancelOne(t, p, "10") // so that the other cancel is not the last record
	last := p.Stop()
	stdout, stderr, status := l.verified()
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Contains(t, stdout,
		fmt.Sprintf("; records before %d are of an older version, and are checked only against its tables: ok",
			l.last.Seq+1))
	require.Contains(t, stdout, fmt.Sprintf("state    seq %d, digest %s\n", last.Seq, last.Digest))

	restore := kept(t, l.database)
	for _, harm := range []struct{ sql, want string }{
		{`UPDATE opening_accounts SET balance = balance + 1 WHERE id = '1'`,
			`history: the tables opening_\*: .*opened with`},
		{`UPDATE positions SET shares = shares + 1 WHERE account = '1' AND sym = 'A'`,
			`money: .*position of account 1 in A has`},
		{`UPDATE execution_log SET shares = shares + 1 WHERE order_id = (SELECT min(order_id) FROM execution_log)`,
			`history: orders, id \d+: executed is`},
		{`UPDATE execution_log SET price = price + 1 WHERE order_id = (SELECT max(order_id) FROM execution_log)`,
			`history: execution_log, order_id \d+, n 1: the row has`},
		{`UPDATE order_log SET seq = 3 WHERE id = (SELECT max(id) FROM order_log)`,
			`history: order_log, id \d+: it is of record 3, .* older than the history`},
		{`DELETE FROM cancel_log WHERE order_id = (SELECT order_id FROM cancel_log WHERE seq IS NOT NULL ` +
			`ORDER BY seq LIMIT 1)`, `history: .* no row is of record`},
	} {
		t.Run(harm.sql, func(t *testing.T) {
			require.NotZero(t, execute(t, l.database, harm.sql), "there is nothing to change")
			defer restore()
			_, stderr, status := l.verified()
			require.Equal(t, cli.ExitError, status, stderr)
			require.Regexp(t, harm.want, stderr)
		})
	}
}

func TestVerifySaysWhyItCannotCheck(t *testing.T) {
	empty, database := t.TempDir(), pgtest.NewDatabase(t)
	loop := filepath.Join(t.TempDir(), "loop") // a link to itself hides its content, like a directory without permissions
	require.NoError(t, os.Symlink(loop, loop))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"a", "b"}, "verify takes 1 argument, not 2"},
		{[]string{"--nothing"}, "unknown flag --nothing"},
		{[]string{filepath.Join(empty, "none")}, "there is no data directory"},
		{[]string{loop}, syscall.ELOOP.Error()},
		{[]string{"--database-url=", empty}, "there is no local cluster in"},
		{[]string{"--database-url=postgres://%zz", empty}, "cannot be checked"},
		{[]string{"--database-url=" + database, empty}, "holds no exchange"},
	} {
		_, stderr, status := outcry("", append([]string{"verify"}, c.args...)...)
		require.Equal(t, cli.ExitUsage, status, c.args)
		require.Contains(t, stderr, c.want, c.args)
	}
	t.Setenv("DATABASE_URL", database)
	_, stderr, status := outcry("", "verify", empty)
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "holds no exchange", "DATABASE_URL counts")
	stdout, stderr, status := outcry("", "verify", "--help")
	require.Equal(t, cli.ExitOK, status)
	require.Contains(t, stdout, "check a data directory")
	require.NotContains(t, stdout+stderr, database)
}

func TestVerifyWritesNothing(t *testing.T) {
	t.Parallel()
	l := live(t)
	all := func() (contents []string) {
		for _, path := range l.segments(t) {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			contents = append(contents, path, string(b))
		}
		conn := allTables(t, l.database)
		defer conn.Close(background)
		for _, table := range tables {
			var rows string // xmin changes even if an update writes the same values
			require.NoError(t, conn.QueryRow(background,
				fmt.Sprintf(`SELECT coalesce(string_agg(concat(x.xmin, x), ',' ORDER BY x), '') FROM %s x`, table)).Scan(&rows))
			contents = append(contents, table, rows)
		}
		return contents
	}
	before := all()
	_, stderr, status := l.verified()
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Equal(t, before, all())
}
