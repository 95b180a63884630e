package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/remote"
	"outcry/internal/postgres"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

// answered is a frame with the reply to its first sending.
type answered struct{ frame, reply string }

// sent sends frames and returns them with their replies, none of which may be an error.
func sent(t *testing.T, p *exchangetest.Process, frames ...[]byte) (all []answered) {
	t.Helper()
	for _, frame := range frames {
		reply, err := exchangeXML(&cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}, frame)
		require.NoError(t, err)
		require.NotContains(t, string(reply), "<error", "%s", frame)
		all = append(all, answered{string(frame), string(reply)})
	}
	return all
}

// operating returns a client for an exchange's HTTP side.
func operating(p *exchangetest.Process) *remote.Client {
	return remote.NewClient(p.Http, time.Minute, nil)
}

// withRefs returns commands of an account in a new symbol, which use a ref of each of the three kinds.
func withRefs(account, sym string) [][]byte {
	return [][]byte{
		new(wire.Create).Account(wire.Account{ID: account, Balance: "70", Ref: "mine"}).Append(nil),
		new(wire.Create).Symbol(sym, wire.Placement{Account: account, Shares: "7", Ref: "shares"}).Append(nil),
		wire.NewTransactions(account).OrderRef(sym, "-2", "3", "sell").OrderRef(sym, "-1", "4", "more").Append(nil),
	}
}

// beforeBackup uses refs as account 101, and halts that account's symbol EARLY, and B.
func beforeBackup(t *testing.T, p *exchangetest.Process) []answered {
	t.Helper()
	all := sent(t, p, withRefs("101", "EARLY")...)
	for _, sym := range []string{"EARLY", "B"} {
		_, err := operating(p).Halt(background, sym, "before the backup")
		require.NoError(t, err)
	}
	return all
}

// afterBackup makes a record of every kind: it uses refs as account 102, halts that account's symbol LATE,
// resumes B, and cancels one order and then all orders of account 101.
func afterBackup(t *testing.T, p *exchangetest.Process) []answered {
	t.Helper()
	all := sent(t, p, withRefs("102", "LATE")...)
	_, err := operating(p).Halt(background, "LATE", "after the backup")
	require.NoError(t, err)
	_, err = operating(p).Resume(background, "B")
	require.NoError(t, err)
	canceled, err := operating(p).CancelAll(background, "101", "")
	require.NoError(t, err)
	require.Equal(t, 2, canceled.Orders)
	sent(t, p, wire.NewTransactions("102").CancelRef("sell").Append(nil))
	return all
}

// requireEveryKind requires that the journal has a record of each kind after record after.
func requireEveryKind(t *testing.T, data string, after uint64) {
	t.Helper()
	found := map[exchange.EventKind]bool{}
	require.NoError(t, journal.Scan(filepath.Join(data, "journal"), exchange.EventVersion,
		func(seq uint64, record []byte) error {
			var e exchange.Event
			if seq > after {
				if err := exchange.DecodeEvent(record, &e); err != nil {
					return err
				}
				found[e.Kind] = true
			}
			return nil
		}))
	for kind := exchange.AccountOpened; kind <= exchange.OrdersCanceled; kind++ {
		require.True(t, found[kind], "a record of kind %d", kind)
	}
}

// requireAnswered resends frames, each of which must get its first reply.
func requireAnswered(t *testing.T, p *exchangetest.Process, all []answered) {
	t.Helper()
	for _, a := range all {
		reply, err := exchangeXML(&cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}, []byte(a.frame))
		require.NoError(t, err)
		require.Equal(t, a.reply, string(reply), a.frame)
	}
}

// requireHalted requires that orders for a symbol are rejected with a reason, or, if reason is "", that they
// are accepted.
func requireHalted(t *testing.T, p *exchangetest.Process, sym, reason string) {
	t.Helper()
	answer := ordered(t, p, sym)
	if reason == "" {
		require.Empty(t, answer.Error, sym)
		return
	}
	require.Regexp(t, `^symbol `+sym+` is halted since \S+ and accepts no orders; cancel and query work: `+reason+`$`,
		answer.Error)
}

// ordered places an order of account 1, and returns the reply.
func ordered(t *testing.T, p *exchangetest.Process, sym string) wire.Answer {
	t.Helper()
	reply, err := exchangeXML(&cli.Client{Access: cli.Access{Addr: p.Addr,
		Timeout: time.Minute}}, wire.NewTransactions("1").Order(sym, "0.00000001", "0.01").Append(nil))
	require.NoError(t, err)
	answers, err := wire.ParseReply(reply)
	require.NoError(t, err)
	require.Len(t, answers, 1)
	return answers[0]
}

// skippedMin is the least number of order ids that a restore skips.
const skippedMin = 1_000_000_000

// requireNewID requires that the next order gets the id that restore printed, which must lie above all ids
// given out before.
func requireNewID(t *testing.T, p *exchangetest.Process, replied string, above uint64) {
	t.Helper()
	answer := ordered(t, p, "A")
	require.Empty(t, answer.Error)
	require.Contains(t, replied, "the next order is "+answer.ID)
	id, err := strconv.ParseUint(answer.ID, 10, 64)
	require.NoError(t, err)
	require.Greater(t, id, above)
}

// requireTokens requires that a data directory's token file has the content want.
func requireTokens(t *testing.T, data, want string) {
	t.Helper()
	tokens, err := os.ReadFile(filepath.Join(data, "tokens"))
	require.NoError(t, err)
	require.Equal(t, want, string(tokens))
}

// TestTokensOfAnySizeAreBackedUp backs up a token file with as many and as long entries as the server accepts.
func TestTokensOfAnySizeAreBackedUp(t *testing.T) {
	t.Parallel()
	const bytesMax, entriesMax = 8 << 20, 10_000 // the same as in internal/auth
	data, database, dir := t.TempDir(), exchangetest.NewTables(t), t.TempDir()
	exchangetest.Start(t, data, database).Stop()
	tokens := []byte("outcry tokens 1\n")
	r := rand.NewChaCha8([32]byte{1})
	for n := range entriesMax {
		line := fmt.Sprintf("%016x\t%064x\taccount:%d\t2030-01-31T00:00:00Z\t-\t", r.Uint64(), r.Uint64(), n)
		room := (bytesMax-len(tokens))/(entriesMax-n) - len(line) - 1
		tokens = append(append(append(tokens, line...), strings.Repeat("🂡", min(room/4, 200))...), '\n')
	}
	require.Greater(t, len(tokens), bytesMax-entriesMax*4)
	require.NoError(t, os.WriteFile(filepath.Join(data, "tokens"), tokens, 0o600))
	require.Equal(t, entriesMax, strings.Count(must(t, "token", "list", "--data="+data), "\n"), "the server takes them")

	file, elsewhere := filepath.Join(dir, "backup"), filepath.Join(dir, "restored")
	must(t, "backup", "--data="+data, "--database-url="+database, file)
	must(t, "restore", "--segment=65536", "--data="+elsewhere, "--database-url="+pgtest.NewDatabase(t), file)
	restored, err := os.ReadFile(filepath.Join(elsewhere, "tokens"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(tokens, restored))

	// The server rejects a longer file too.
	require.NoError(t,
		os.WriteFile(filepath.Join(data, "tokens"), append(tokens, make([]byte, bytesMax-len(tokens)+1)...), 0o600))
	refused(t, "tokens has more than 8388608 bytes", "backup", "--data="+data, "--database-url="+database, file+"2")
	require.NoFileExists(t, file+"2")

	// A backup without the journal never reads the token file.
	require.NoError(t, os.Remove(file))
	must(t, "backup", "--without-journal", "--database-url="+database, file)
	stdout := must(t, "restore", "--segment=65536", "--data="+elsewhere+"2", "--database-url="+pgtest.NewDatabase(t), file)
	require.Contains(t, stdout, "TOKENS   none: the backup was taken without them.")
	require.Contains(t, stdout, "executions and cancels at any time may be missing here")
}

// liveShortly runs an exchange for a few frames, and stops it.
func liveShortly(t *testing.T) *life {
	t.Helper()
	l := &life{data: t.TempDir(), database: exchangetest.NewTables(t), r: rand.New(rand.NewPCG(1, 1))}
	p := exchangetest.Start(t, l.data, l.database)
	openMarket(t, p)
	trade(t, p, l.r, 2)
	l.last = p.Stop()
	return l
}

// TestWhatARestoreWasToldCountsWhenItIsDoneAgain kills a restore after its commit. A second restore, with or
// without --journal, finishes it, but with the options of the first.
func TestWhatARestoreWasToldCountsWhenItIsDoneAgain(t *testing.T) {
	t.Parallel()
	l := liveShortly(t)
	require.NoError(t, os.WriteFile(filepath.Join(l.data, "tokens"), []byte("hashed\n"), 0o600))
	file, committed := takenOf(t, l), len(postgres.Tables())+2
	byAnotherName := filepath.Dir(file) + "/./" + filepath.Base(file)
	o := backup.RestoreOptions{File: file, Data: filepath.Join(t.TempDir(), "data"), DatabaseURL: pgtest.NewDatabase(t),
		SegmentBytes: 1 << 16}
	killedRestore(t, o, committed)
	again := []string{"restore", "--data=" + o.Data, "--database-url=" + o.DatabaseURL}
	refused(t, "has filled the database, without a journal: to have the records of "+l.data+" as well, begin again",
		append(again, "--journal="+l.data, file)...)
	stdout := must(t, append(again, byAnotherName)...)
	require.Contains(t, stdout, "An earlier restore was complete except for its last step")
	require.Contains(t, stdout, "TOKENS   are those of T: tokens revoked since are valid again.")
	require.Contains(t, stdout, "LOST     everything")

	o.Data, o.DatabaseURL, o.Journal = filepath.Join(t.TempDir(), "data"), pgtest.NewDatabase(t), l.data
	killedRestore(t, o, committed+1) // this step copies the journal as well
	stdout = must(t, "restore", "--data="+o.Data, "--database-url="+o.DatabaseURL, file)
	require.Contains(t, stdout, "An earlier restore was complete except for its last step")
	require.Contains(t, stdout, "tokens   are those of "+l.data+"/tokens\n")
	require.Contains(t, stdout, "journal  0 records after the backup, ")
	require.NotContains(t, stdout, "LOST")

	// Before the commit the new options count.
	o.Data, o.DatabaseURL, o.Journal = filepath.Join(t.TempDir(), "data"), pgtest.NewDatabase(t), ""
	killedRestore(t, o, committed-1)
	stdout = must(t, "restore", "--data="+o.Data, "--database-url="+o.DatabaseURL, "--journal="+l.data, file)
	require.Contains(t, stdout, " records after the backup, which the next start replays. ")
	must(t, "verify", "--database-url="+o.DatabaseURL, o.Data)
}

// TestWhatABackupMissesIsSaid checks the time after which records may be missing: the time when the backup began,
// not when its snapshot was taken; or, for a backup without the journal, the time of the newest order.
func TestWhatABackupMissesIsSaid(t *testing.T) {
	t.Parallel()
	l := liveShortly(t)
	file, begun := takenOf(t, l), time.Now().Add(-3*time.Hour).Truncate(time.Second).UTC()
	early := forged(t, file, func(h *backup.Header) { h.Begun = begun }, func(*backup.Table, *string, *int64) {}, "")
	replica, placed := filepath.Join(t.TempDir(), "replica"), begun.Add(-24*time.Hour)
	execute(t, l.database,
		fmt.Sprintf("UPDATE order_log SET time = %d WHERE id = (SELECT max(id) FROM order_log)", placed.Unix()))
	must(t, "backup", "--without-journal", "--database-url="+l.database, replica)
	for file, since := range map[string]time.Time{early: begun, replica: placed} {
		o := backup.RestoreOptions{File: file, Data: filepath.Join(t.TempDir(), "data"), DatabaseURL: pgtest.NewDatabase(t),
			SegmentBytes: 1 << 16}
		r, err := backup.Restore(background, o)
		require.NoError(t, err)
		require.Equal(t, since, r.Since)
		require.Greater(t, r.NextOrder, uint64(time.Since(since).Seconds()-1)*1e6)
		var said strings.Builder
		tellRestored(&said, o, r)
		require.Contains(t, said.String(), "cancels since "+since.Format(time.RFC3339)+" may be missing here")
	}
}

// TestABackupOfBeforeTheSchemasIsRestored restores a backup from testdata, of version 7 of the tables, when those
// for people and all others were in one Postgres schema. The state must be the same, and the exchange must
// continue.
func TestABackupOfBeforeTheSchemasIsRestored(t *testing.T) {
	const state = "state    seq 7, digest 2cb99a4333b1ee18f097442e4754bf9d4de094ad0b1c3bf77a24dae7fabdb9c6\n"
	data, database := filepath.Join(t.TempDir(), "data"), pgtest.NewDatabase(t)
	require.Contains(t, must(t, "restore", "--segment=65536", "--data="+data, "--database-url="+database,
		"testdata/backup-schema-7"), state)
	require.Contains(t, must(t, "verify", "--database-url="+database, data), state)
	p := exchangetest.Start(t, data, database)
	require.Contains(t, sent(t, p, []byte(`<transactions id="2"><query id="3"/></transactions>`))[0].reply,
		`<open shares="3"/>`)
	p.Stop()
}
