package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/process/version"
	"outcry/internal/testing/pgtest"
)

func TestASecondServerIsRefused(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), pgtest.NewDatabase(t)
	first := start(t, "--data="+data, "--database-url="+database)
	dial(t, first.xml).must(t, opening)
	require.Contains(t, launch(t, "--data="+data, "--database-url="+pgtest.NewDatabase(t)).fails(t),
		data+" is in use by another process")
	require.Contains(t, launch(t, "--data="+t.TempDir(), "--database-url="+database).fails(t),
		"another server is using the database")
	require.Contains(t, dial(t, first.xml).must(t,
		`<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`), "opened")
	first.stop(t)
}

// lived returns the data directory and the database of a cleanly stopped server on which accounts have traded.
func lived(t *testing.T, trades int) (data, database string) {
	t.Helper()
	data, database = t.TempDir(), pgtest.NewDatabase(t)
	p := start(t, "--data="+data, "--database-url="+database)
	c := dial(t, p.xml)
	c.must(t, opening)
	for range trades {
		require.NotContains(t, c.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`),
			"error")
		require.NotContains(t, c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="3"/></transactions>`),
			"error")
	}
	p.stop(t)
	return data, database
}

func TestALostJournalIsRefusedUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	data, database := lived(t, 3)
	empty := t.TempDir()
	log := launch(t, "--data="+empty, "--database-url="+database).fails(t)
	require.Contains(t, log, "records that were answered may be lost")
	require.Contains(t, log, "--accept-journal-loss")
	require.Contains(t, launch(t, "--data="+empty, "--database-url="+database).fails(t), "may be lost",
		"the first refusal changed nothing")
	require.Contains(t, launch(t, "--data="+empty, "--database-url="+database, "--ack=postgres").fails(t), "may be lost",
		"earlier answers did not wait for Postgres")

	p := start(t, "--data="+empty, "--database-url="+database, "--accept-journal-loss")
	require.Contains(t, dial(t, p.xml).must(t,
		`<transactions id="1"><query id="6"/><order sym="S" amount="1" limit="1"/></transactions>`), `id="1000000007"`,
		"a client may have been given the ids from 7 on")
	p.stop(t)
	require.Contains(t, launch(t, "--data="+data, "--database-url="+database).fails(t),
		"is not the one that the database follows", "another has taken its place")
	start(t, "--data="+empty, "--database-url="+database).stop(t)
}

func TestAnotherDatabasesJournalIsRefused(t *testing.T) {
	t.Parallel()
	_, database := lived(t, 1)
	other, _ := lived(t, 3)
	require.Contains(t, launch(t, "--data="+other, "--database-url="+database).fails(t),
		"this data directory belongs to another database")
}

func TestADatabaseThatIsTooOldIsRefused(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), pgtest.NewDatabase(t)
	p := start(t, "--data="+data, "--database-url="+database, "--segment=65536")
	c := dial(t, p.xml)
	c.must(t, opening)
	for range 40 {
		require.NotContains(t, c.must(t,
			`<transactions id="2">`+strings.Repeat(`<order sym="S" amount="-0.1" limit="3"/>`, 100)+`</transactions>`), "error")
	}
	p.stop(t)
	require.NoFileExists(t, filepath.Join(data, "journal", "00000000000000000001.seg"),
		"segments behind applied_seq are deleted")
	require.Contains(t, launch(t, "--data="+data, "--database-url="+pgtest.NewDatabase(t)).fails(t),
		"the database is older than the journal's start")
	start(t, "--data="+data, "--database-url="+database).stop(t)
}

func TestARebuiltDatabaseIsFilledFromTheJournal(t *testing.T) {
	t.Parallel()
	data, before := lived(t, 4)
	after := pgtest.NewDatabase(t)
	start(t, "--data="+data, "--database-url="+after).stop(t)
	for _, table := range []string{"accounts", "symbols", "positions", "orders", "executions", "resting_orders"} {
		sql := "SELECT * FROM " + table + " ORDER BY 1, 2"
		require.Equal(t, query(t, text(t, before), sql), query(t, text(t, after), sql), table)
	}
	conserved(t, after)
}

// segmentOf returns the only segment of a data directory.
func segmentOf(t *testing.T, data string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(data, "journal", "*.seg"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

func TestADamagedJournalIsRefusedWithFileAndOffset(t *testing.T) {
	t.Parallel()
	data, database := lived(t, 3)
	path := segmentOf(t, data)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[200] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	log := launch(t, "--data="+data, "--database-url="+database).fails(t)
	require.Contains(t, log, filepath.Base(path)+" is damaged at offset")
}

// TestReplayRefusesOtherFills changes a recorded fill and corrects the checksum, so that the journal contradicts what
// matching yields.
func TestReplayRefusesOtherFills(t *testing.T) {
	t.Parallel()
	data, _ := lived(t, 3)
	path := segmentOf(t, data)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var changed bool
	require.NoError(t, journal.Scan(filepath.Join(data, "journal"), exchange.EventVersion,
		func(seq uint64, record []byte) error {
			var e exchange.Event
			require.NoError(t, exchange.DecodeEvent(record, &e))
			if changed || len(e.Fills) == 0 {
				return nil
			}
			changed = true
			e.Fills[0].Price-- // one price unit too cheap
			other := exchange.AppendEvent(nil, &e)
			require.Len(t, other, len(record))
			at := bytes.Index(b, record)
			copy(b[at:], other)
			header := b[at-24 : at+len(record)]
			table := crc32.MakeTable(crc32.Castagnoli)
			binary.LittleEndian.PutUint32(header[4:], crc32.Update(crc32.Checksum(header[:4], table), table, header[8:]))
			return nil
		}))
	require.True(t, changed)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	log := launch(t, "--data="+data, "--database-url="+pgtest.NewDatabase(t)).fails(t)
	require.Contains(t, log, "does not replay as recorded")
	require.Contains(t, log, "order 2 of S was filled")
}

func TestATamperedDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	data, database := lived(t, 3)
	query(t, database, `UPDATE accounts SET balance = balance + 1 WHERE id = '1'`)
	require.Contains(t, launch(t, "--data="+data, "--database-url="+database).fails(t), "does not add up")
}

func TestASchemaFromTheFutureIsRefused(t *testing.T) {
	t.Parallel()
	data, database := lived(t, 1)
	query(t, database, `UPDATE outcry.schema_version SET version = 99`)
	require.Contains(t, launch(t, "--data="+data, "--database-url="+database).fails(t),
		fmt.Sprintf("its schema has version 99, this program knows up to %d", postgres.SchemaVersion()))
}

// TestTheLocalClusterNeedsNoConfiguration starts with only a directory, as a new user does, is killed, and starts
// again.
func TestTheLocalClusterNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "outcry-data")
	begin := func() *program {
		p := prepare(t, "--data="+data)
		p.cmd.Env = append(p.cmd.Env, "DATABASE_URL=")
		require.NoError(t, p.cmd.Start())
		t.Cleanup(p.kill)
		p.waitReady(t)
		return p
	}
	p := begin()
	require.Contains(t, dial(t, p.xml).must(t, opening), "created")
	p.kill()
	p = begin()
	require.Contains(t, dial(t, p.xml).must(t,
		`<transactions id="2"><order sym="S" amount="-1" limit="3"/><query id="1"/></transactions>`), `<open shares="1"/>`)
	p.stop(t)
	require.NoFileExists(t, filepath.Join(data, "postgres", "data", "postmaster.pid"))
}

func TestAnOrderlyStopFinishesWhatIsIn(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, opening)
	const frames = 500
	frame := wire.AppendFrame(nil, []byte(`<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`))
	go func() { _, _ = c.Write(bytes.Repeat(frame, frames)) }()
	reply, err := c.r.Next()
	require.NoError(t, err)
	go p.cmd.Process.Signal(syscall.SIGTERM)
	answered := 0
	for ; err == nil; reply, err = c.r.Next() {
		if strings.Contains(string(reply), "opened") {
			answered++
		} else {
			require.Contains(t, string(reply), "the exchange is stopping", "the last reply says why")
		}
	}
	require.NoError(t, p.cmd.Wait(), "log: %s", p.log)
	orders := query(t, text(t, database), `SELECT count(*) FROM orders`)[0][0]
	require.Equal(t, strconv.Itoa(answered), orders, "what was done was answered")
	require.Empty(t, query(t, database, `SELECT 1 FROM exchange_state WHERE applied_seq < 4`))
}

func TestBadFlagsAreNamed(t *testing.T) {
	for flags, want := range map[string]string{
		"--log-level=ERROR+1":    `--log-level ERROR+1: must be DEBUG, INFO, WARN or ERROR`,
		"--ack=disk":             `--ack "disk": must be "journal" or "postgres"`,
		"--max-frame=3":          "--max-frame 3: must be from 64",
		"--idle-timeout=-1s":     "--idle-timeout",
		"--no-such":              "no-such",
		"extra":                  "unexpected arguments (1)",
		"--max-reply=0":          "--max-reply 0: must be from 64",
		"--max-memory=1000":      "--max-memory 1000: must be from 1048576",
		"--max-memory=200000000": "--max-memory 200000000: must be at least 268435456, 64 times --max-frame",
		"--max-connections=zwei": "zwei",
	} {
		var stderr strings.Builder
		require.Equal(t, exitUsage, run(background, []string{flags}, io.Discard, &stderr), flags)
		require.Contains(t, stderr.String(), want)
		usage := strings.Contains(stderr.String(), "\nUsage: outcryd [flags]; outcryd --help lists them\n")
		require.Equal(t, !strings.Contains(want, ": must be") && !strings.Contains(want, "idle"), usage, flags)
	}
	t.Setenv("OUTCRY_MAX_FRAME", "many")
	var stderr strings.Builder
	require.Equal(t, exitUsage, run(background, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), `OUTCRY_MAX_FRAME="many"`)
	t.Setenv("OUTCRY_MAX_FRAME", "100")
	c, err := settings.Parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 100, c.FrameBytesMax)
	c, err = settings.Parse([]string{"--max-frame=200"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 200, c.FrameBytesMax, "a flag wins")
	t.Setenv("DATABASE_URL", "postgres://u:secret@h/d")
	c, err = settings.Parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "postgres://u:secret@h/d", c.DatabaseURL)
	c, err = settings.Parse([]string{"--database-url="}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, c.DatabaseURL, "the local cluster, on demand")
	var help strings.Builder
	require.Equal(t, exitOK, run(background, []string{"--help"}, &help, io.Discard))
	require.Contains(t, help.String(), "Usage: outcryd [flags]")
	require.NotContains(t, help.String(), "secret")
	var stdout strings.Builder
	require.Equal(t, exitOK, run(background, []string{"--version"}, &stdout, io.Discard))
	require.Contains(t, stdout.String(), "outcryd "+version.String()+"\nreads journals up to version ")
}

func TestAnAddressInUseIsNamed(t *testing.T) {
	flags, _ := dataFlags(t)
	_, addr := inProcess(t, flags...)
	other, _ := dataFlags(t)
	_, _, err := tryInProcess(append(other, "--listen="+addr)...)
	require.ErrorContains(t, err, addr)
	require.NotErrorIs(t, err, exec.ErrNotFound)
}
