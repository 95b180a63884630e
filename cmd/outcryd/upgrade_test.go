package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/testing/pgtest"
)

// lastReleased is the last released version of the schema. testdata/upgrade has, for each released version of the
// schema or the journal, an exchange left by a program of that version. make.sh made them.
const lastReleased = 9

// golden is an exchange in testdata/upgrade. Its journal is ahead of its database.
type golden struct{ folder string }

func goldens(t *testing.T) (all []golden) {
	t.Helper()
	folders, err := filepath.Glob("testdata/upgrade/schema-*")
	require.NoError(t, err)
	for _, f := range folders {
		all = append(all, golden{f})
	}
	for version := 1; version <= lastReleased; version++ {
		require.Contains(t, all, golden{fmt.Sprintf("testdata/upgrade/schema-%d", version)})
	}
	require.EqualValues(t, 4, golden{fmt.Sprintf("testdata/upgrade/schema-%d", lastReleased)}.journalVersion(t))
	return all
}

// journalVersion returns the version of the last segment.
func (g golden) journalVersion(t *testing.T) uint32 {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(g.data(t), "journal", "*.seg"))
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	header, err := os.ReadFile(segments[len(segments)-1])
	require.NoError(t, err)
	return binary.LittleEndian.Uint32(header[8:])
}

// read unpacks a file of the exchange.
func (g golden) read(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(g.folder, name))
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	return string(b)
}

// database restores the exchange's database and returns its URL.
func (g golden) database(t *testing.T) string {
	t.Helper()
	return g.databaseIn(t, "public")
}

// databaseIn restores the exchange's database with its tables in another schema, and returns its URL.
func (g golden) databaseIn(t *testing.T, schema string) string {
	t.Helper()
	url := pgtest.NewDatabase(t)
	conn, err := pgx.Connect(background, url)
	require.NoError(t, err)
	defer conn.Close(background)
	tables := strings.ReplaceAll(g.read(t, "database.sql.gz"), "public.", schema+".")
	_, err = conn.PgConn().Exec(background, "CREATE SCHEMA IF NOT EXISTS "+schema+";"+tables).ReadAll()
	require.NoError(t, err)
	return url
}

// data restores the exchange's data directory and returns its path.
func (g golden) data(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := tar.NewReader(strings.NewReader(g.read(t, "journal.tar.gz")))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.Mkdir(path, 0o750))
			continue
		}
		b, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, 0o640))
	}
}

// holds requires that the tables equal the older program's final tables. Times after its last record are not compared:
// they come from the start, which finishes an unfinished order.
func (g golden) holds(t *testing.T, database string) {
	t.Helper()
	var now strings.Builder
	for _, of := range []struct{ table, columns, condition string }{ // the same as in make.sh
		{"accounts", "id, opened, balance, held", ""}, {"positions", "*", ""},
		{"orders", "id, account, sym, amount, limit_price, open, executed, canceled, time, canceled_at", ""},
		{"executions", "sym, buy_order, sell_order, shares, price, time, aggressing_order, n", ""},
		{"refs", "account, ref, seq, order_id", ""},
		{"symbols", "sym, halted_at, halt_reason", "WHERE halted_at IS NOT NULL"},
		{"halt_log", "seq, sym, halted, reason, time", ""},
	} {
		for _, row := range query(t, text(t, database),
			"SELECT "+of.columns+" FROM "+of.table+" "+of.condition+" ORDER BY 1, 2, 3") {
			now.WriteString(of.table + "|" + strings.Join(row, "|") + "\n")
		}
	}
	want, _, _ := strings.Cut(g.read(t, "expected.txt.gz"), `"digest"`)
	last := g.lastTime(t)
	require.Equal(t, withoutTimesAfter(last, want), withoutTimesAfter(last, now.String()))
}

// awaitFinished waits until a server has finished the exchange's last order, which was unfinished. A server that
// stops earlier leaves the order to the next start.
func (g golden) awaitFinished(t *testing.T, p *program) {
	t.Helper()
	order := regexp.MustCompile(`(?m)^orders\|(\d+)\|(\d+)\|\w+\|[^|]+\|[^|]+\|([^|]+)`)
	orders := order.FindAllStringSubmatch(g.read(t, "expected.txt.gz"), -1)
	newest := orders[len(orders)-1]
	query := fmt.Sprintf(`<transactions id="%s"><query id="%s"/></transactions>`, newest[2], newest[1])
	c := dial(t, p.xml)
	require.Eventually(t, func() bool {
		return strings.Contains(c.must(t, query), fmt.Sprintf(`<open shares="%s"/>`, newest[3]))
	}, patience, 5e6)
}

// lastTime returns the time of the newest journal record, in seconds.
func (g golden) lastTime(t *testing.T) (last int64) {
	t.Helper()
	var e exchange.Event
	require.NoError(t, journal.Scan(filepath.Join(g.data(t), "journal"), exchange.EventVersion,
		func(_ uint64, record []byte) error {
			err := exchange.DecodeEvent(record, &e)
			last = max(last, exchange.Seconds(e.Time))
			return err
		}))
	return last
}

// withoutTimesAfter replaces each time in rows that is later than last.
func withoutTimesAfter(last int64, rows string) string {
	return timeField.ReplaceAllStringFunc(rows, func(field string) string {
		if time, err := strconv.ParseInt(field[1:], 10, 64); err != nil || time <= last {
			return field
		}
		return "|later"
	})
}

var timeField = regexp.MustCompile(`\|\d{10}\b`)

// digests returns the digests that the older program logged of its state after loading and of its final state. They
// are equal unless an order was unfinished. Programs of version 1 logged no digests; their state equals that of
// version 3 except for times.
func (g golden) digests(t *testing.T) (loaded, last string) {
	t.Helper()
	if strings.HasPrefix(filepath.Base(g.folder), "schema-1") {
		g.folder = "testdata/upgrade/schema-3"
	}
	all := regexp.MustCompile(`"digest":"[0-9a-f]{64}"`).FindAllString(g.read(t, "expected.txt.gz"), -1)
	require.NotEmpty(t, all)
	return all[0], all[len(all)-1]
}

func versionOf(t *testing.T, database string) string {
	t.Helper()
	now := query(t, text(t, database), "SELECT relkind = 'r' FROM pg_class WHERE relname = 'schema_version'")
	if len(now) == 0 {
		return query(t, text(t, database), "SELECT version FROM public.outcry_schema_version")[0][0]
	}
	return query(t, text(t, database), "SELECT version FROM outcry.schema_version")[0][0]
}

func TestEveryReleasedVersionIsUpgraded(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(filepath.Base(g.folder), func(t *testing.T) {
			t.Parallel()
			data, database := g.data(t), g.database(t)
			before := versionOf(t, database)
			loaded, last := g.digests(t)
			parts := slices.Contains([]string{"schema-7", "schema-8", "schema-9"}, filepath.Base(g.folder))
			require.Equal(t, parts, loaded != last, "which has an order to finish")
			p := start(t, "--data="+data, "--database-url="+database)
			require.Contains(t, p.log.String(), loaded)
			if before != fmt.Sprint(postgres.SchemaVersion()) {
				require.Contains(t, p.log.String(), "bringing the database's schema up to date")
			}
			if loaded != last {
				g.awaitFinished(t, p)
			}
			p.stop(t)
			g.holds(t, database)
			require.Equal(t, fmt.Sprint(postgres.SchemaVersion()), versionOf(t, database))
			upgraded := numbersOf(t, database)

			p = start(t, "--data="+data, "--database-url="+database)
			require.NotContains(t, p.log.String(), "bringing the database's schema up to date")
			require.Contains(t, p.log.String(), last)
			require.Regexp(t, `<opened [^>]*id="\d+"`,
				dial(t, p.xml).must(t, `<transactions id="2"><order sym="SPY" amount="1" limit="0.01"/></transactions>`))
			requireFillsSince(t, dial(t, p.xml), database, filepath.Base(g.folder) < "schema-9")
			p.kill()
			start(t, "--data="+data, "--database-url="+database).stop(t)

			// The journal alone leads to the same state in an empty database.
			fresh := pgtest.NewDatabase(t)
			p = start(t, "--data="+g.data(t), "--database-url="+fresh)
			require.Contains(t, p.log.String(), loaded)
			if loaded != last {
				g.awaitFinished(t, p)
			}
			p.stop(t)
			if !strings.HasPrefix(filepath.Base(g.folder), "schema-1") { // tables of version 1 do not have all records
				require.Equal(t, numbersOf(t, fresh), upgraded, "as on a node that was never upgraded")
			}
		})
	}
}

// numbersOf returns the event and execution counts of each account, and the candles. It leaves out the candles of
// the order that a start finishes at its own time. The numbers must agree with the records.
func numbersOf(t *testing.T, database string) [][]string {
	t.Helper()
	a, err := postgres.OpenArchive(background, database)
	require.NoError(t, err)
	defer a.Close()
	fills, err := a.CountFills(background)
	require.NoError(t, err)
	require.NoError(t, a.History(background, fills.Add))
	require.NoError(t, errors.Join(fills.Check(background), a.CheckCandles(background), a.CheckPlaced(background)))
	return append(query(t, text(t, database), `SELECT id, n, fills FROM accounts ORDER BY id`),
		query(t, text(t, database), `SELECT * FROM candles WHERE sym <> 'LONG' ORDER BY sym, seconds, start`)...)
}

// requireFillsSince requires that account queries return the executions stored since the upgrade, and report that
// earlier ones are not available. If some is true, at least one account must have
// executions from before the upgrade; otherwise none may.
func requireFillsSince(t *testing.T, c *conn, database string, some bool) {
	t.Helper()
	older := 0
	for _, row := range query(t, text(t, database), `SELECT id, fills, fills - coalesce(
		(SELECT sum(count) FROM outcry.fill_log WHERE account = id), 0) FROM accounts WHERE fills > 0`) {
		newest := c.must(t, `<transactions id="`+row[0]+`"><fills/></transactions>`)
		first := c.must(t, `<transactions id="`+row[0]+`"><fills after="0"/></transactions>`)
		kept := row[1] != row[2]
		require.Equal(t, kept, strings.Contains(newest, `<fill n="`+row[1]+`"`), newest)
		require.NotContains(t, newest, "<error")
		if row[2] == "0" {
			require.Contains(t, first, `<fill n="1"`)
			continue
		}
		require.Contains(t, first, "are older than those kept")
		older++
	}
	require.Equal(t, some, older > 0)
}

// TestAnExchangeInASchemaOfItsOwnIsUpgraded: the tables are in another schema because search_path named it, or because
// it has the role's name. After the upgrade, the tables are still where they were.
func TestAnExchangeInASchemaOfItsOwnIsUpgraded(t *testing.T) {
	for schema, parameter := range map[string]string{"desk": "&search_path=desk", "outcry": ""} {
		for _, g := range []golden{{"testdata/upgrade/schema-1"}, {"testdata/upgrade/schema-6"}} {
			t.Run(schema+" "+filepath.Base(g.folder), func(t *testing.T) {
				t.Parallel()
				data, database := g.data(t), g.databaseIn(t, schema)
				loaded, last := g.digests(t)
				p := start(t, "--data="+data, "--database-url="+database+parameter)
				require.Contains(t, p.log.String(), loaded)
				p.stop(t)
				g.holds(t, database+"&search_path="+schema+",outcry")
				// The search_path is no longer needed.
				p = start(t, "--data="+data, "--database-url="+database)
				require.Contains(t, p.log.String(), last)
				p.stop(t)
				require.Equal(t, [][]string{{schema}}, query(t, text(t, database), "SELECT people FROM outcry.schema_version"))
				require.Empty(t, query(t, database, "SELECT 1 FROM pg_class WHERE relnamespace = 'public'::regnamespace"))
			})
		}
	}
}

// setVersion changes the version in a segment.
func setVersion(t *testing.T, path string, version uint32) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
	require.NoError(t, os.WriteFile(path, b, 0o640))
}

func TestANewerJournalIsRefusedBeforeAnythingChanges(t *testing.T) {
	t.Parallel()
	g := golden{"testdata/upgrade/schema-1"}
	segments, err := filepath.Glob(filepath.Join(g.data(t), "journal", "*.seg"))
	require.NoError(t, err)
	require.Len(t, segments, 2)
	for i := range segments {
		data, database := g.data(t), g.database(t)
		newer := filepath.Join(data, "journal", filepath.Base(segments[i]))
		setVersion(t, newer, exchange.EventVersion+1)
		before, exported := dirBytes(t, data), query(t, text(t, database), "SELECT * FROM exchange_state")
		log := launch(t, "--data="+data, "--database-url="+database).fails(t)
		require.Contains(t, log, fmt.Sprintf("%s has version %d and this program reads up to version %d",
			filepath.Base(newer), exchange.EventVersion+1, exchange.EventVersion))
		require.Equal(t, "1", versionOf(t, database))
		require.Equal(t, exported, query(t, text(t, database), "SELECT * FROM exchange_state"), "not even the epoch")
		require.Equal(t, before, dirBytes(t, data))
	}
}

// dirBytes returns the contents of all segments in a data directory.
func dirBytes(t *testing.T, data string) string {
	t.Helper()
	var all bytes.Buffer
	segments, err := filepath.Glob(filepath.Join(data, "journal", "*.seg"))
	require.NoError(t, err)
	for _, s := range segments {
		b, err := os.ReadFile(s)
		require.NoError(t, err)
		fmt.Fprintln(&all, s, len(b), crc32.ChecksumIEEE(b))
	}
	return all.String()
}

func TestANewerSchemaIsRefusedAndNothingChanges(t *testing.T) {
	t.Parallel()
	g := golden{"testdata/upgrade/schema-3"}
	data, database := g.data(t), g.database(t)
	query(t, database, "UPDATE outcry_schema_version SET version = version + 50")
	before, exported := dirBytes(t, data), query(t, text(t, database), "SELECT * FROM exchange_state")
	log := launch(t, "--data="+data, "--database-url="+database).fails(t)
	require.Contains(t, log, fmt.Sprintf("its schema has version 53, this program knows up to %d: a newer outcryd has "+
		"upgraded it", postgres.SchemaVersion()))
	require.Equal(t, exported, query(t, text(t, database), "SELECT * FROM exchange_state"))
	require.Equal(t, before, dirBytes(t, data))
}

// TestAKillInTheMiddleOfAMigrationLeavesAVersionWhole blocks the migration to version 3 after its first statement, by
// a lock on a table that it reads, and kills the program there.
func TestAKillInTheMiddleOfAMigrationLeavesAVersionWhole(t *testing.T) {
	t.Parallel()
	g := golden{"testdata/upgrade/schema-1"}
	data, database := g.data(t), g.database(t)
	other, err := pgx.Connect(background, database)
	require.NoError(t, err)
	defer other.Close(background)
	tx, err := other.Begin(background)
	require.NoError(t, err)
	_, err = tx.Exec(background, "LOCK TABLE public.execution_log IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	p := launch(t, "--data="+data, "--database-url="+database)
	waiting := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' ` +
		`AND query ~ 'CREATE TABLE market'`
	isWaiting := func(n string) func() bool {
		return func() bool { return query(t, text(t, database), waiting)[0][0] == n }
	}
	require.Eventually(t, isWaiting("1"), patience, lookEvery, "log: %s", p.log)
	p.kill()
	// Postgres notices that the client is gone although the statement still waits for the lock.
	require.Eventually(t, isWaiting("0"), patience, lookEvery)
	require.Equal(t, "2", versionOf(t, database))
	require.Empty(t, query(t, text(t, database), "SELECT 1 FROM pg_class WHERE relname = 'market'"))
	require.NoError(t, tx.Rollback(background))

	start(t, "--data="+data, "--database-url="+database).stop(t)
	require.Equal(t, fmt.Sprint(postgres.SchemaVersion()), versionOf(t, database))
	g.holds(t, database)
}

func TestOfServersThatStartAtOnceOneMigrates(t *testing.T) {
	t.Parallel()
	database := golden{"testdata/upgrade/schema-1"}.database(t)
	var log logBuffer
	var opening sync.WaitGroup
	for range 4 {
		opening.Go(func() {
			store, err := postgres.Open(background, database, slog.New(slog.NewJSONHandler(&log, nil)))
			if err != nil { // require may only be called in the test's own goroutine
				t.Errorf("a server that may wait for the lock: %v", err)
				return
			}
			store.Close()
		})
	}
	opening.Wait()
	require.Len(t, regexp.MustCompile("bringing the database's schema up to date").FindAllString(log.String(), -1), 1)
	require.Equal(t, fmt.Sprint(postgres.SchemaVersion()), versionOf(t, database))
}

// TestKindsOfRecordsBelongToTheJournalsVersion fails if someone adds a kind of record without raising
// exchange.EventVersion, since older programs of the same version could not read it.
func TestKindsOfRecordsBelongToTheJournalsVersion(t *testing.T) {
	require.EqualValues(t, 4, exchange.EventVersion, "say here which kinds it has")
	for kind := range 256 {
		var e exchange.Event
		record := []byte{byte(kind), 0, 1, 'r'} // with a ref, if the kind has one
		if kind&0x80 != 0 {
			record = []byte{byte(kind), 0, 0, 1, 'r'} // the same record with flags
		}
		err := exchange.DecodeEvent(record, &e)
		if err != nil && strings.Contains(err.Error(), "unknown kind") {
			continue
		}
		require.Contains(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, kind&^0xc0, "kind %d", kind)
	}
}
