package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/postgres/local"
)

const (
	// databaseTimeout bounds all questions to the database together.
	databaseTimeout = 10 * time.Second

	// connectionsMin is how many connections the server and readers of the database use.
	connectionsMin = 10

	// clockApart is the largest accepted difference between the clocks of the two machines.
	clockApart = time.Second
)

// checkDatabase checks the settings of Postgres, and the exchange in the database.
func (e *examination) checkDatabase(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	url, isLocal := e.DatabaseURL, e.DatabaseURL == ""
	if isLocal {
		dir := filepath.Join(e.Data, "postgres")
		if _, err := os.Stat(filepath.Join(dir, "data")); errors.Is(err, os.ErrNotExist) {
			e.found("postgres", OK, "",
				"there is no local cluster yet; the first start creates one, or name a database with --database-url")
			return
		}
		var err error
		url, err = local.RunningURL(dir)
		if err != nil && !errors.Is(err, local.ErrNotRunning) {
			e.found("postgres", Warn, "run outcry doctor as the server's user, or as root", "%v", err)
			return
		}
		if err != nil {
			e.found("postgres", Warn, "start outcryd and run outcry doctor again: its local Postgres can be checked only "+
				"while it runs", "%v", err)
			return
		}
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		e.found("postgres", Bad, "correct --database-url", "%v", postgres.WithoutURL(err))
		return
	}
	config.RuntimeParams["application_name"] = "outcry doctor"
	config.RuntimeParams["default_transaction_read_only"] = "on"
	// overrides a timeout of the role or the database; databaseTimeout bounds the check
	config.RuntimeParams["statement_timeout"] = "0"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		e.found("postgres", Bad, "start Postgres, or correct --database-url", "%v", err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := e.checkSettings(ctx, conn, isLocal); err != nil {
		e.unknown("postgres", err)
		return
	}
	e.checkDatabaseClock(ctx, conn)
	e.checkSchema(ctx, conn)
}

// databaseSettings lists the settings of Postgres that matter, with the value that each must have and the advice
// if it does not.
var databaseSettings = []struct {
	name, want string
	grade      Grade
	why        string
}{
	{"fsync", "on", Bad, "without it a power cut can destroy the database: set fsync = on"},
	{"full_page_writes", "on", Bad,
		"without it a power cut can tear pages, unless the file system never does: set full_page_writes = on"},
	{"synchronous_commit", "on", Warn,
		"outcryd turns it on for itself; other writers of this database may lose what was committed"},
	{"autovacuum", "on", Warn, "tables and indexes grow without bound: set autovacuum = on"},
	{"server_encoding", "UTF8", Warn, "make the database with ENCODING 'UTF8'"},
}

// checkSettings reads all settings in one query and checks them.
func (e *examination) checkSettings(ctx context.Context, conn *pgx.Conn, isLocal bool) error {
	rows, err := conn.Query(ctx, `SELECT name, setting FROM pg_catalog.pg_settings`)
	if err != nil {
		return err
	}
	is := map[string]string{}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { is[name] = value; return nil }); err != nil {
		return err
	}
	version, _ := strconv.Atoi(is["server_version_num"]) // 0, which is too old, if it is not a number
	e.found("postgres", gradeIf(version < 10_000*local.OldestMajor, Bad),
		fmt.Sprintf("use version %d or newer", local.OldestMajor), "version %s", is["server_version"])
	for _, s := range databaseSettings {
		right := is[s.name] == s.want
		// Modes that also wait for a standby server are as good.
		right = right || s.name == "synchronous_commit" && (is[s.name] == "remote_apply" || is[s.name] == "remote_write")
		e.found(s.name, gradeIf(!right, s.grade), s.why, "%s", is[s.name])
	}
	most, _ := strconv.Atoi(is["max_connections"])
	reserved, _ := strconv.Atoi(is["superuser_reserved_connections"])
	e.found("max_connections", gradeIf(most-reserved < connectionsMin, Warn),
		fmt.Sprintf("set max_connections to %d or more", connectionsMin+reserved),
		"%d, of which %d are for administrators", most, reserved)
	e.checkWAL(is["max_wal_size"], isLocal)
	return nil
}

// checkWAL compares max_wal_size with the free room on the disk, if that disk is visible from here.
func (e *examination) checkWAL(mib string, isLocal bool) {
	n, err := strconv.ParseUint(mib, 10, 40)
	if err != nil || !isLocal {
		return
	}
	d, err := e.machine.disk(e.existing())
	if err != nil {
		return // checkDisk has reported it
	}
	e.found("max_wal_size", gradeIf(d.free < n<<20, Warn), "make room: Postgres stops when its log has none",
		"%d MiB, and %s are free", n, bytesOf(d.free))
}

// checkDatabaseClock compares the clocks of the two machines.
func (e *examination) checkDatabaseClock(ctx context.Context, conn *pgx.Conn) {
	var theirs time.Time
	before := e.machine.now()
	if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&theirs); err != nil {
		e.unknown("database clock", err)
		return
	}
	after := e.machine.now()
	took := after.Sub(before)
	apart := theirs.Sub(before.Round(0).Add(took / 2)).Abs()
	e.found("database clock", gradeIf(apart > clockApart+took, Warn), "synchronize both clocks with the same server",
		"%s apart from ours", shown(apart.Round(time.Millisecond)))
}

// checkSchema checks that the version of the schema is one that this program knows, and that the database
// belongs to the journal.
func (e *examination) checkSchema(ctx context.Context, conn *pgx.Conn) {
	newest := postgres.SchemaVersion()
	// Read the journal before the database: a running server deletes segments that the database has.
	oldest, _ := journal.Oldest(filepath.Join(e.Data, "journal")) // checkJournal reports an error
	version, position, err := postgres.Look(ctx, conn)
	switch {
	case err != nil:
		e.unknown("schema", err)
		return
	case version == 0:
		e.found("schema", OK, "", "the database holds no exchange yet; the first start creates one")
		return
	case version > newest:
		e.found("schema", Bad, "use the version of outcry that the server has", "version %d, this program knows up to %d",
			version, newest)
		return
	}
	e.found("schema", gradeIf(version < newest, Warn),
		"the next start of this version of outcryd brings it up to date: take a backup before",
		"version %d, this program's is %d", version, newest)
	e.checkBelongs(oldest, position)
}

// checkBelongs checks that the journal and the database belong together, by the same rules as a start. oldest
// was read before the database, so that a running server does not cause a false finding.
func (e *examination) checkBelongs(oldest uint64, p postgres.Position) {
	dir := filepath.Join(e.Data, "journal")
	there, err := journal.Exists(dir)
	if err != nil {
		return // checkJournal has reported it
	}
	// If every reply waited for Postgres, losing the journal loses no reply.
	lost := Bad
	if p.Ack == "postgres" {
		lost = Warn
	}
	const advice = "bring back the journal that was used with this database: records that were answered may be lost " +
		"without it. docs/reference/PROCEDURES.md, Lose the journal"
	if !there {
		begun := p.Applied > 0 || p.Journal != [16]byte{}
		e.found("belongs", gradeIf(begun, lost), advice,
			"the database holds records up to %d, and there is no journal in %s", p.Applied, dir)
		return
	}
	id, last, err := journal.Newest(dir, exchange.EventVersion)
	if err != nil {
		return // checkJournal has reported it
	}
	other := p.Journal != [16]byte{} && p.Journal != id
	switch {
	case oldest > p.Applied+1:
		e.found("belongs", Bad, "restore a newer backup: the records between are in neither",
			"the database holds records up to %d, and the journal in %s begins at %d", p.Applied, dir, oldest)
	case other && last < oldest: // it is a new journal
		e.found("belongs", lost, advice,
			"the database holds records up to %d, and the journal in %s is another one, without records", p.Applied, dir)
	case other:
		e.found("belongs", Bad, "name the data directory and the database of one exchange",
			"the database follows the journal %x up to record %d; the one in %s is %x, up to %d", p.Journal, p.Applied, e.Data,
			id, last)
	case last < p.Applied:
		e.found("belongs", lost, advice, "the database holds records up to %d, and the journal in %s reaches only to %d",
			p.Applied, dir, last)
	default:
		e.found("belongs", OK, "", "the database follows the journal %x up to record %d; the one in %s is %x, up to %d",
			p.Journal, p.Applied, e.Data, id, last)
	}
}
