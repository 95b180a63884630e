package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/postgres"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

// stateLine matches the line with a state that backup, restore and verify print.
var stateLine = regexp.MustCompile(`state    seq (\d+), digest ([0-9a-f]{64})\n`)

// stateOf returns the seq and the digest of the state line in stdout.
func stateOf(t *testing.T, stdout string) (seq, digest string) {
	t.Helper()
	m := stateLine.FindStringSubmatch(stdout)
	require.NotNil(t, m, stdout)
	return m[1], m[2]
}

// must runs a command line and fails the test if the command fails.
func must(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, status := outcry("", args...)
	require.Equal(t, cli.ExitOK, status, "%v: %s%s", args, stdout, stderr)
	return stdout
}

// refused runs a command line that must fail with want in its message.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	stdout, stderr, status := outcry("", args...)
	require.Equal(t, cli.ExitError, status, "%v: %s%s", args, stdout, stderr)
	require.Contains(t, stderr, want)
}

// replayed returns the state after replaying the journal up to record last.
func replayed(t *testing.T, dir string, last uint64) *exchange.State {
	t.Helper()
	state := exchange.NewState()
	var e exchange.Event
	require.NoError(t, journal.Scan(filepath.Join(dir, "journal"), exchange.EventVersion,
		func(seq uint64, record []byte) error {
			if seq > last {
				return nil
			}
			if err := exchange.DecodeEvent(record, &e); err != nil {
				return err
			}
			return state.Apply(&e)
		}))
	return state
}

// openMarket opens accounts 1 to 5 with shares of A and B.
func openMarket(t *testing.T, p *exchangetest.Process) {
	t.Helper()
	create := new(wire.Create)
	for id := range 5 {
		create.Account(wire.Account{ID: fmt.Sprint(id + 1), Balance: "1000000.00000001"})
	}
	for _, sym := range []string{"A", "B"} {
		for id := range 5 {
			create.Symbol(sym, wire.Placement{Account: fmt.Sprint(id + 1), Shares: "10000.00000001"})
		}
	}
	_, err := exchangeXML(&cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}, create.Append(nil))
	require.NoError(t, err)
}

// load has two clients trade until stop is called. answered counts the frames that got a reply.
func load(t *testing.T, p *exchangetest.Process, seed uint64) (answered *atomic.Int64, stop func()) {
	answered = new(atomic.Int64)
	ctx, cancel := context.WithCancel(background)
	ended := make(chan struct{}, 2)
	for i := range 2 {
		go func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				trade(t, p, r, 5)
				answered.Add(5)
			}
			ended <- struct{}{}
		}()
	}
	return answered, func() {
		cancel()
		<-ended
		<-ended
	}
}

// TestABackupInFullLoadIsTheStateOfOneRecord takes a backup while two clients trade, and restores it. The restored
// state must equal that of the original's journal after the same record. Then the restored exchange continues.
func TestABackupInFullLoadIsTheStateOfOneRecord(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	data, database, dir := t.TempDir(), exchangetest.NewTables(t), t.TempDir()
	file := filepath.Join(dir, "one.backup")
	p := exchangetest.Start(t, data, database, "--segment=16777216", "--http=127.0.0.1:0") // large: keeps all records
	openMarket(t, p)
	kept := beforeBackup(t, p)
	answered, stop := load(t, p, seed)
	require.Eventually(t, func() bool { return answered.Load() > 50 }, time.Minute, time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(data, "tokens"), []byte("hashed\n"), 0o600))
	_, before, err := journal.Newest(filepath.Join(data, "journal"), exchange.EventVersion)
	require.NoError(t, err)
	stdout := must(t, "backup", "--data="+data, "--database-url="+database, file)
	then := answered.Load()
	require.Eventually(t, func() bool { return answered.Load() > then }, time.Minute, time.Millisecond, "clients trade")
	stop()
	last := p.Stop()

	seq, digest := stateOf(t, stdout)
	h, _, err := backup.CheckFile(file)
	require.NoError(t, err)
	require.Equal(t, seq, fmt.Sprint(h.Seq))
	require.GreaterOrEqual(t, h.Seq, before, "what was answered is in it")
	require.Less(t, h.Seq, last.Seq)
	want := replayed(t, data, h.Seq)
	require.Equal(t, fmt.Sprintf("%x", want.Digest()), digest)
	require.Contains(t, must(t, "restore", "--check", file), fmt.Sprintf("state    seq %s, digest %s\n", seq, digest))

	elsewhere := filepath.Join(dir, "restored")
	restored := pgtest.NewDatabase(t)
	stdout = must(t, "restore", "--segment=65536", "--data="+elsewhere, "--database-url="+restored, file)
	require.Contains(t, stdout, "LOST     everything that the exchange answered after record "+seq)
	requireTokens(t, elsewhere, "hashed\n")
	require.Contains(t, stdout, "TOKENS   are those of T: tokens revoked since are valid again.")
	gotSeq, gotDigest := stateOf(t, must(t, "verify", "--database-url="+restored, elsewhere))
	require.Equal(t, []string{seq, digest}, []string{gotSeq, gotDigest})

	p = exchangetest.Start(t, elsewhere, restored)
	require.Equal(t, digest, p.Loaded.Digest)
	requireAnswered(t, p, kept)
	requireHalted(t, p, "EARLY", "before the backup")
	requireHalted(t, p, "B", "before the backup")
	requireNewID(t, p, stdout, skippedMin)
	trade(t, p, rand.New(rand.NewPCG(seed, 9)), 5)
	end := p.Stop()
	gotSeq, gotDigest = stateOf(t, must(t, "verify", "--database-url="+restored, elsewhere))
	require.Equal(t, []string{fmt.Sprint(end.Seq), end.Digest}, []string{gotSeq, gotDigest})

	notMixed(t, data, database, elsewhere, restored)
}

// notMixed starts each exchange with the other exchange's journal; both starts must fail.
func notMixed(t *testing.T, data, database, elsewhere, restored string) {
	t.Helper()
	for _, mixed := range [][2]string{{data, restored}, {elsewhere, database}} {
		cmd := exec.Command(exchangetest.Server(t), "--data="+mixed[0], "--database-url="+mixed[1],
			"--listen=127.0.0.1:0", "--http=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		log, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Regexp(t,
			`this data directory belongs to another database|the database is older than the journal|may be lost`, string(log))
	}
}

// TestNothingIsLostWhereTheJournalSurvived kills an exchange, loses its database, and restores the backup
// together with the later records of the journal.
func TestNothingIsLostWhereTheJournalSurvived(t *testing.T) {
	t.Parallel()
	data, database, dir := t.TempDir(), exchangetest.NewTables(t), t.TempDir()
	p := exchangetest.Start(t, data, database, "--segment=16777216", "--http=127.0.0.1:0")
	openMarket(t, p)
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	trade(t, p, r, 5)
	kept := beforeBackup(t, p)
	require.NoError(t, os.WriteFile(filepath.Join(data, "tokens"), []byte("all are good\n"), 0o600))
	file := filepath.Join(dir, "backup")
	seq, _ := stateOf(t, must(t, "backup", "--data="+data, "--database-url="+database, file))
	trade(t, p, r, 5)
	kept = append(kept, afterBackup(t, p)...)
	require.NoError(t, os.WriteFile(filepath.Join(data, "tokens"), []byte("one was revoked\n"), 0o600))
	require.NoError(t, p.Cmd.Process.Kill())
	_ = p.Cmd.Wait()
	_, last, err := journal.Newest(filepath.Join(data, "journal"), exchange.EventVersion)
	require.NoError(t, err)
	backed, err := strconv.ParseUint(seq, 10, 64)
	require.NoError(t, err)
	requireEveryKind(t, data, backed)
	want := fmt.Sprintf("%x", replayed(t, data, last).Digest())

	elsewhere, restored := filepath.Join(dir, "restored"), pgtest.NewDatabase(t)
	stdout := mustReadOnly(t, data, "restore", "--data="+elsewhere, "--database-url="+restored, "--journal="+data, file)
	require.NotContains(t, stdout, "LOST")
	require.Contains(t, stdout, "tokens   are those of "+data+"/tokens\n")
	require.Contains(t, stdout, fmt.Sprintf("\njournal  %d records after the backup, ", last-backed))
	requireTokens(t, elsewhere, "one was revoked\n")

	require.NoError(t, os.Remove(filepath.Join(data, "tokens")), "which revokes all")
	revoked := filepath.Join(dir, "revoked")
	require.Contains(t, mustReadOnly(t, data, "restore", "--data="+revoked, "--database-url="+pgtest.NewDatabase(t),
		"--journal="+data, file), "TOKENS   none: ")
	require.NoFileExists(t, filepath.Join(revoked, "tokens"))
	gotSeq, digest := stateOf(t, stdout)
	require.Equal(t, []string{fmt.Sprint(last), want}, []string{gotSeq, digest})
	require.NotEqual(t, seq, gotSeq)
	p = exchangetest.Start(t, elsewhere, restored)
	require.Equal(t, want, p.Loaded.Digest)
	requireAnswered(t, p, kept)
	requireHalted(t, p, "EARLY", "before the backup")
	requireHalted(t, p, "LATE", "after the backup")
	requireNewID(t, p, stdout, skippedMin)
	requireHalted(t, p, "B", "")
	trade(t, p, r, 2)
	p.Stop()
	must(t, "verify", "--database-url="+restored, elsewhere)
	notMixed(t, data, database, elsewhere, restored)

	// A journal that does not fit the backup is refused.
	other := live(t)
	for want, dir := range map[string]string{
		"the backup is of an exchange with the journal": other.data,
		"no journal in": t.TempDir(),
	} {
		refused(t, want, "restore", "--data="+filepath.Join(dir, "x"), "--database-url="+pgtest.NewDatabase(t),
			"--journal="+dir, file)
	}
	whole := takenOf(t, other)
	short := t.TempDir()
	require.NoError(t, os.CopyFS(short, os.DirFS(other.data)))
	edit(t, (&life{data: short}).segments(t)[0], func(b []byte) { b[200] ^= 1 })
	refused(t, "is damaged at offset", "restore", "--data="+elsewhere, "--database-url="+pgtest.NewDatabase(t),
		"--journal="+short, whole)
	p = exchangetest.Start(t, other.data, other.database)
	for range 8 {
		trade(t, p, r, 8)
	}
	p.Stop()
	refused(t, "the server deletes segments that Postgres has", "restore", "--data="+filepath.Join(dir, "y"),
		"--database-url="+pgtest.NewDatabase(t), "--journal="+other.data, whole)
}

// takenOf takes a backup of a stopped exchange.
func takenOf(t *testing.T, l *life) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "backup")
	seq, digest := stateOf(t, must(t, "backup", "--data="+l.data, "--database-url="+l.database, file))
	require.Equal(t, []string{fmt.Sprint(l.last.Seq), l.last.Digest}, []string{seq, digest})
	return file
}

// contents lists the files below a directory, with their sizes.
func contents(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			all = append(all, fmt.Sprint(path, " ", info.Size()))
		}
		return err
	}))
	return all
}

// TestARestoreIsRefusedAndChangesNothing tries restores and backups that must be refused.
func TestARestoreIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	l := live(t)
	file := takenOf(t, l)
	empty := pgtest.NewDatabase(t)
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "mine"), []byte("x"), 0o600))
	damaged := filepath.Join(t.TempDir(), "damaged")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t,
		os.WriteFile(damaged, append(content[:len(content)/2:len(content)/2], content[len(content)/2+1:]...), 0o600))
	cats := pgtest.NewDatabase(t)
	execute(t, cats, "CREATE TABLE cats (id int)")
	p := exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t))
	another := p.Cmd.Args[4][len("--database-url="):]
	dir := t.TempDir()
	before := contents(t, dir)
	for want, args := range map[string][]string{
		"is not empty: it has mine; nothing was changed": {"--data=" + full, "--database-url=" + empty, file},
		"is not empty: it has journal":                   {"--data=" + l.data, "--database-url=" + empty, file},
		"is not empty: it has the table cats":            {"--data=" + dir, "--database-url=" + cats, file},
		"is not empty: it has the table accounts":        {"--data=" + dir, "--database-url=" + l.database, file},
		"damaged: the backup is damaged at offset":       {"--data=" + dir, "--database-url=" + empty, damaged},
		"no such file": {"--data=" + dir, "--database-url=" + empty, damaged + "2"},
	} {
		refused(t, want, append([]string{"restore"}, args...)...)
	}
	require.Equal(t, before, contents(t, dir))
	require.NoError(t, func() error {
		loader, err := postgres.OpenLoader(background, empty)
		require.NoError(t, err)
		defer loader.Close()
		return loader.CheckEmpty(background)
	}())
	_, stderr, status := outcry("", "restore", "--segment=7", file)
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "--segment 7: must be from 65536")
	refused(t, "exists already: nothing was written", "backup", "--data="+l.data, "--database-url="+l.database, file)
	refused(t, "they belong to different exchanges", "backup", "--data="+l.data, "--database-url="+another, file+"2")
	refused(t, "no journal in", "backup", "--data="+dir, "--database-url="+l.database, file+"2")
	refused(t, "cannot be used", "backup", "--data="+l.data, "--database-url=nonsense://", file+"2")
	execute(t, l.database, "UPDATE exchange_state SET applied_seq = applied_seq - 1")
	refused(t, "is outcryd running, and Postgres fast enough?", "backup", "--data="+l.data, "--database-url="+l.database,
		"--wait=1ms", file+"2")
	execute(t, l.database, "UPDATE exchange_state SET applied_seq = applied_seq + 1")
	must(t, "backup", "--max-bytes=1000000000", "--without-journal", "--database-url="+l.database, file+"2")
	require.NoFileExists(t, file+"2.partial")
	refused(t, "it is larger than the limit of 1000 bytes", "backup", "--max-bytes=1000", "--data="+l.data,
		"--database-url="+l.database, file+"3")
	require.NoFileExists(t, file+"3.partial")
	_, stderr, status = outcry("", "backup", "--max-bytes=-1", file+"3")
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "--max-bytes -1: must not be negative")
	execute(t, l.database, "UPDATE accounts SET balance = balance + 1 WHERE id = '1'")
	refused(t, "exchange: ", "backup", "--data="+l.data, "--database-url="+l.database, file+"3")
	require.NoFileExists(t, file+"3.partial")
}

// TestTheLocalClusterIsBackedUp backs up the local cluster of a running exchange, through its socket, and of a
// stopped exchange, whose cluster it starts. It restores into a local cluster.
func TestTheLocalClusterIsBackedUp(t *testing.T) {
	t.Parallel()
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	p := exchangetest.Start(t, data, "")
	openMarket(t, p)
	trade(t, p, rand.New(rand.NewPCG(1, 1)), 2)
	running, file := filepath.Join(dir, "running"), filepath.Join(dir, "stopped")
	stateOf(t, must(t, "backup", "--database-url=", "--data="+data, running))
	last := p.Stop()
	seq, digest := stateOf(t, must(t, "backup", "--database-url=", "--data="+data, file))
	require.Equal(t, []string{fmt.Sprint(last.Seq), last.Digest}, []string{seq, digest})
	restored := filepath.Join(dir, "restored")
	must(t, "restore", "--database-url=", "--segment=65536", "--data="+restored, file)
	gotSeq, gotDigest := stateOf(t, must(t, "verify", "--database-url=", restored))
	require.Equal(t, []string{seq, digest}, []string{gotSeq, gotDigest})
	require.NoFileExists(t, filepath.Join(restored, "postgres", "data", "postmaster.pid"), "the local cluster is stopped")
	refused(t, "there is no data directory", "backup", "--database-url=", "--data="+dir+"/none", file+"2")
}

// restoreVariable makes the test program run the restore that its value describes, and kill itself at the step
// named there.
const restoreVariable = "OUTCRY_TEST_RESTORE"

// crashing is the value of restoreVariable, as JSON.
type crashing struct {
	Options backup.RestoreOptions
	Step    int
}

// restoreAndCrash runs the restore that value describes, and kills the process at the step named there. Each
// progress message starts a step, except those about reading the file and about amounts of MiB.
func restoreAndCrash(value string) {
	var c crashing
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		panic(err)
	}
	steps := 0
	c.Options.Progress = func(text string) {
		if text == "reading the whole backup" || strings.HasSuffix(text, " MiB") {
			return
		}
		if steps++; steps > c.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	if _, err := backup.Restore(background, c.Options); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestARestoreThatIsKilledIsRefusedOrDoneAgain kills restores at the first and the last steps, and at a step in
// between.
func TestARestoreThatIsKilledIsRefusedOrDoneAgain(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	t.Parallel()
	l := live(t)
	file, tables := takenOf(t, l), len(postgres.Tables())
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, step := range budget.Sample(seed, []int{0, 1 + rand.IntN(tables-1), tables, tables + 1, tables + 2}) {
		o := backup.RestoreOptions{File: file, Data: filepath.Join(t.TempDir(), "data"), DatabaseURL: pgtest.NewDatabase(t),
			SegmentBytes: 1 << 16}
		killedRestore(t, o, step)
		require.ErrorContains(t, backup.Unfinished(o.Data), "has not ended", "step %d", step)
		server := exec.Command(exchangetest.Server(t), "--data="+o.Data, "--database-url="+o.DatabaseURL,
			"--listen=127.0.0.1:0", "--http=")
		server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		log, err := server.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(log), "has not ended: run outcry restore there again", "step %d", step)
		_, stderr, status := outcry("", "verify", "--database-url="+o.DatabaseURL, o.Data)
		require.Equal(t, cli.ExitUsage, status)
		require.Contains(t, stderr, "has not ended")

		r, err := backup.Restore(background, o)
		require.NoError(t, err, "step %d", step)
		require.Equal(t, l.last.Digest, fmt.Sprintf("%x", r.Digest))
		require.NoError(t, backup.Unfinished(o.Data))
		require.Equal(t, step == tables+2, r.Finished, "step %d", step)
		_, digest := stateOf(t, must(t, "verify", "--database-url="+o.DatabaseURL, o.Data))
		require.Equal(t, l.last.Digest, digest)
	}
}

// killedRestore runs a restore in another process, which kills itself at a step.
func killedRestore(t *testing.T, o backup.RestoreOptions, step int) {
	t.Helper()
	value, err := json.Marshal(map[string]any{"Step": step, "Options": map[string]any{
		"File": o.File, "Data": o.Data, "DatabaseURL": o.DatabaseURL, "Journal": o.Journal, "SegmentBytes": o.SegmentBytes}})
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), restoreVariable+"="+string(value))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "step %d", step)
	require.Equal(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), string(out))
}

// TestABackupThatIsKilledLeavesNoFile kills a backup while it writes.
func TestABackupThatIsKilledLeavesNoFile(t *testing.T) {
	t.Parallel()
	l := live(t)
	file := filepath.Join(t.TempDir(), "backup")
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), runVariable+"=backup --data="+l.data+" --database-url="+l.database+" "+file)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool {
			_, partial := os.Stat(file + ".partial")
			_, whole := os.Stat(file)
			return partial == nil || whole == nil
		}, time.Minute, time.Millisecond)
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) // hit a random point of the backup
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if _, err := os.Stat(file); err == nil {
			_, _, err := backup.CheckFile(file)
			require.NoError(t, err)
			require.NoError(t, os.Remove(file))
		}
	}
	must(t, "backup", "--data="+l.data, "--database-url="+l.database, file)
	require.NoFileExists(t, file+".partial")
}

// runVariable makes the test program run as outcry itself, so that tests can kill it.
const runVariable = "OUTCRY_TEST_RUN"

// beAnother runs another program in the test's process, if an environment variable asks for one.
func beAnother() {
	if value := os.Getenv(restoreVariable); value != "" {
		restoreAndCrash(value)
	}
	if dir := os.Getenv(readOnlyVariable); dir != "" {
		mountReadOnly(dir)
	}
	if args := os.Getenv(runVariable); args != "" {
		os.Exit(run(strings.Fields(args), os.Stdin, os.Stdout, os.Stderr))
	}
}
