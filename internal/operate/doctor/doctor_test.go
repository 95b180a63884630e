package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/pgtest"
)

var background = context.Background()

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// healthy returns a machine without any problem: 4 processors, and 8 GiB without a limit.
func healthy() machine {
	files := map[string]string{
		"/proc/meminfo": "MemTotal:        8388608 kB\nMemFree: 1 kB\n", "/proc/self/cgroup": "0::/a/b\n",
		"/proc/sys/net/core/somaxconn":         "4096\n",
		"/proc/cpuinfo":                        strings.Repeat("processor\t: 0\n", 4),
		"/sys/dev/block/8:1/queue/write_cache": "write back\n",
	}
	return machine{
		read: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		env:   func(string) string { return "" },
		files: func() (uint64, error) { return 1 << 20, nil },
		clock: func() (clockState, error) { return clockState{synced: true, errorMax: time.Millisecond}, nil },
		disk: func(string) (disk, error) {
			return disk{kind: "ext4", size: 100 << 30, free: 50 << 30, inodes: 1000, inodesMax: 2000, device: "8:1"}, nil
		},
		sync: func(string, int, time.Duration) ([]time.Duration, error) {
			return []time.Duration{time.Millisecond, 2 * time.Millisecond}, nil
		},
		now: time.Now, procs: 4, patience: time.Minute,
	}
}

// with returns the machine with one more file.
func (m machine) with(path, text string) machine {
	read := m.read
	m.read = func(p string) ([]byte, error) {
		if p == path {
			return []byte(text), nil
		}
		return read(p)
	}
	return m
}

// examined returns the findings on a machine, by the name of the check.
func examined(t *testing.T, m machine, o Options) map[string]Finding {
	t.Helper()
	if o.Data == "" {
		o.Data = filepath.Join(t.TempDir(), "data")
	}
	if o.ConnectionsMax == 0 {
		o.ConnectionsMax, o.HTTPConnectionsMax = 16384, 4096
	}
	if o.MemoryMax == 0 {
		o.MemoryMax = 512 << 20
	}
	if o.SymbolsMax == 0 {
		o.OpenOrdersMax, o.AccountsMax, o.SymbolsMax = 4_000_000, 1_000_000, 100_000
	}
	e := &examination{Options: o, machine: m}
	all := map[string]Finding{}
	for _, f := range e.run(background) {
		require.NotContains(t, all, f.Check)
		require.NotEmpty(t, f.Value)
		require.Equal(t, f.Grade == OK, f.Advice == "", "%v: advice is given exactly if the grade is not ok", f)
		all[f.Check] = f
	}
	return all
}

// requireFound checks the grade of a finding, and parts of its value and its advice.
func requireFound(t *testing.T, f Finding, g Grade, value, advice string) {
	t.Helper()
	require.Equal(t, g, f.Grade, "%v", f)
	require.Contains(t, f.Value, value)
	require.Contains(t, f.Advice, advice)
}

func TestAHealthyMachineIsOK(t *testing.T) {
	for _, f := range examined(t, healthy(), Options{}) {
		require.Equal(t, OK, f.Grade, "%v", f)
	}
}

// TestEachCheckOfTheMachineFinds gives the machine one problem at a time.
func TestEachCheckOfTheMachineFinds(t *testing.T) {
	unknown := errors.New("no such thing here")
	withDisk := func(d disk) func(*machine) {
		return func(m *machine) { m.disk = func(string) (disk, error) { return d, nil } }
	}
	withFile := func(path, text string) func(*machine) { return func(m *machine) { *m = m.with(path, text) } }
	withSync := func(took ...time.Duration) func(*machine) {
		return func(m *machine) {
			m.sync = func(string, int, time.Duration) ([]time.Duration, error) { return took, nil }
		}
	}
	withLimit := func(env string) func(*machine) {
		return func(m *machine) {
			*m = m.with("/sys/fs/cgroup/a/memory.max", "4294967296\n")
			m.env = func(string) string { return env }
		}
	}
	for _, test := range []struct {
		check         string
		wrong         func(*machine)
		grade         Grade
		value, advice string
	}{
		{"file system", withDisk(disk{kind: "tmpfs", free: 1 << 40}), Bad, "tmpfs", "put the data directory on a disk"},
		{"file system", withDisk(disk{kind: "overlay", free: 1 << 40}), Warn, "overlay", "on a volume"},
		{"file system", withDisk(disk{kind: "nfs", free: 1 << 40}), Warn, "nfs", "use a local disk"},
		{"file system", func(m *machine) { m.disk = func(string) (disk, error) { return disk{}, unknown } }, Warn,
			"no such thing here", "by hand"},
		{"room", withDisk(disk{size: 100 << 30, free: 100 << 20}), Bad, "100 MiB free of 100 GiB", "make room"},
		{"room", withDisk(disk{size: 10 << 40, free: 20 << 30}), Warn, "(0 %)", "make room"},
		{"room", withDisk(disk{size: 100 << 30, free: 50 << 30, inodes: 3, inodesMax: 1e6}), Bad, "3 of 1000000 inodes",
			"make room"},
		{"disk sync", withSync(time.Microsecond, 2*time.Microsecond), Bad, "p50 2µs", "ignores syncs"},
		{"disk sync", withSync(time.Millisecond, 50*time.Millisecond), Warn, "p99 50ms", "faster disk"},
		{"disk sync", withSync(), Warn, "no write could be timed", "by hand"},
		{"write cache", func(m *machine) {
			withSync(50 * time.Microsecond)(m)
			withFile("/sys/dev/block/8:1/queue/write_cache", "write through\n")(m)
		}, Warn, "write through", "survives a power cut"},
		{"open files", func(m *machine) { m.files = func() (uint64, error) { return 1024, nil } }, Warn,
			"1024 allowed, 20640 needed",
			"ulimit -n (LimitNOFILE= of a unit) to 20640: a server with this limit has at most 691 connections, and 172 over " +
				"HTTP"},
		{"open files", func(m *machine) { m.files = func() (uint64, error) { return 0, unknown } }, Warn, "no such thing",
			"by hand"},
		{"listen backlog", withFile("/proc/sys/net/core/somaxconn", "128\n"), Warn, "is 128", "net.core.somaxconn=4096"},
		{"listen backlog", withFile("/proc/sys/net/core/somaxconn", "many\n"), Warn, "not known", "by hand"},
		{"memory", withFile("/proc/meminfo", "MemTotal: 524288 kB\n"), Bad, "512 MiB, of the machine",
			"give it 1536 MiB or more"},
		{"memory", withFile("/sys/fs/cgroup/a/b/memory.max", "1200000000\n"), Warn, "of the control group",
			"lower --max-memory"},
		{"memory", withFile("/proc/meminfo", "?"), Warn, "/proc/meminfo", "by hand"},
		{"memory limit", withLimit(""), OK, "3276 MiB, 4/5 of the memory of the control group", ""},
		{"memory limit", withLimit("1.5GB"), Bad, `"1.5GB" is not an amount`, "KiB, MiB, GiB"},
		{"memory limit", withLimit("5GiB"), Warn, "5120 MiB, of 4096 MiB", "four fifths"},
		{"memory limit", withLimit("3500MiB"), OK, "3500 MiB, GOMEMLIMIT", ""},
		{"memory limit", withLimit("off"), Warn, "none", "set --memory-limit"},
		{"memory limit", withFile("/sys/fs/cgroup/a/memory.max", "3000000000\n"), Warn,
			"--max-open-orders 4000000, --max-accounts 1000000, --max-symbols 100000 and twice --max-memory 536870912 need " +
				"2440 MiB together, and 4/5 of the memory of the control group is 2288 MiB", "give it more memory"},
		{"processors", withFile("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"), Warn,
			"GOMAXPROCS is 4, of 4 processors with a quota of 1.5", "set it to 1"},
		{"processors", withFile("/sys/fs/cgroup/cpu.max", "max 100000\n"), OK, "no quota", ""},
		{"processors", func(m *machine) { m.procs = 1 }, Warn, "GOMAXPROCS is 1", "two processors"},
		{"clock", func(m *machine) { m.clock = func() (clockState, error) { return clockState{}, nil } }, Warn,
			"not synchronized", "chrony"},
		{"clock", func(m *machine) { m.clock = func() (clockState, error) { return clockState{true, time.Minute}, nil } },
			Warn, "at most 1m0s off", "chronyc"},
		{"clock", func(m *machine) { m.clock = func() (clockState, error) { return clockState{}, unknown } }, Warn,
			"no such thing", "by hand"},
	} {
		m := healthy()
		test.wrong(&m)
		requireFound(t, examined(t, m, Options{})[test.check], test.grade, test.value, test.advice)
	}
}

// TestAClockThatIsSetIsFound sets the clock while it is watched.
func TestAClockThatIsSetIsFound(t *testing.T) {
	for moved, want := range map[time.Duration]Grade{0: OK, time.Minute: Warn, -time.Minute: Warn} {
		require.Equal(t, want, clockFinding(100*time.Millisecond, 100*time.Millisecond+moved).Grade, moved)
	}
	requireFound(t, clockFinding(time.Second, 61*time.Second), Warn,
		"was set by 1m0s within 1s", "chrony")
}

// TestTheRealMachineIsLookedAt examines the real machine, with the files, disk and memory that it has.
func TestTheRealMachineIsLookedAt(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.Chmod(data, 0o700))
	all := examined(t, thisMachine(), Options{Data: data})
	require.NotEqual(t, "tmpfs", all["file system"].Value)
	require.Contains(t, all["disk sync"].Value, "synced writes of 4 KiB in "+data)
	require.NotEmpty(t, all["clock"].Value)
	require.Equal(t, OK, all["clock steps"].Grade)
	require.Contains(t, all["memory"].Value, "iB, of the ")
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, entries, "it leaves no file behind")

	inMemory, err := os.MkdirTemp("/dev/shm", "outcry-doctor-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(inMemory) })
	all = examined(t, thisMachine(), Options{Data: filepath.Join(inMemory, "not", "there")})
	requireFound(t, all["file system"], Bad, "tmpfs, of "+inMemory, "in memory")
	require.Contains(t, all["directory"].Value, "the first start creates it")
}

func TestTheDataDirectoryIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	requireFound(t, examined(t, healthy(), Options{Data: dir})["directory"], Warn, "mode 0755", "chmod o= "+dir)
	require.NoError(t, os.Chmod(dir, 0o050))
	requireFound(t, examined(t, healthy(), Options{Data: dir})["directory"], Bad, "cannot use it", "chmod u+rwx")
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "RESTORING")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	requireFound(t, examined(t, healthy(), Options{Data: dir})["directory"], Bad, "has not ended", "outcry restore")
	requireFound(t, examined(t, healthy(), Options{Data: file})["directory"], Bad, "is not a directory", "--data")

	j, err := journal.Open(filepath.Join(dir, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 12})
	require.NoError(t, err)
	seq, err := j.Append([]byte("record"))
	require.NoError(t, err)
	require.NoError(t, j.Wait(background, seq))
	requireFound(t, examined(t, healthy(), Options{Data: dir})["journal"], OK, "up to record 1", "")
	require.NoError(t, j.Close())
	segment := filepath.Join(dir, "journal", "00000000000000000001.seg")
	b, err := os.ReadFile(segment)
	require.NoError(t, err)
	b[3] ^= 1
	require.NoError(t, os.WriteFile(segment, b, 0o600))
	requireFound(t, examined(t, healthy(), Options{Data: dir})["journal"], Bad, "is damaged at offset 0", "outcry verify")
}

// A journal without read permission is not reported as damaged, and the advice is not to stop the server.
func TestAJournalThatIsClosedToUsIsNotCalledDamaged(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(filepath.Join(dir, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 12})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	require.NoError(t, os.Chmod(filepath.Join(dir, "journal"), 0))
	defer os.Chmod(filepath.Join(dir, "journal"), 0o700)
	if os.Geteuid() == 0 { // root may open every file, so this thread takes the user id of nobody
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		require.NoError(t, os.Chmod(dir, 0o755))
		require.NoError(t, unix.Setfsuid(65534))
		defer func() { require.NoError(t, unix.Setfsuid(0)) }()
	}
	e := &examination{Options: Options{Data: dir}, machine: healthy()}
	e.checkJournal() // on this thread
	require.Len(t, e.findings, 1)
	requireFound(t, e.findings[0], Warn, "permission denied", "as the server's user")
}

// TestPostgresIsLookedAt examines a real Postgres, which runs without durability, as in all tests.
func TestPostgresIsLookedAt(t *testing.T) {
	url := pgtest.NewDatabase(t)
	all := examined(t, healthy(), Options{DatabaseURL: url})
	requireFound(t, all["fsync"], Bad, "off", "set fsync = on")
	requireFound(t, all["full_page_writes"], Bad, "off", "tear pages")
	requireFound(t, all["synchronous_commit"], Warn, "off", "")
	requireFound(t, all["autovacuum"], Warn, "off", "set autovacuum = on")
	requireFound(t, all["postgres"], OK, "version 1", "")
	requireFound(t, all["max_connections"], OK, "100, of which", "")
	requireFound(t, all["database clock"], OK, "apart from ours", "")
	requireFound(t, all["schema"], OK, "holds no exchange yet", "")

	m := healthy()
	m.now = func() time.Time { return time.Now().Add(time.Hour) }
	requireFound(t, examined(t, m, Options{DatabaseURL: url})["database clock"], Warn, "1h0m0s apart", "synchronize both")

	conn, err := pgx.Connect(background, url)
	require.NoError(t, err)
	defer conn.Close(background)
	_, err = conn.Exec(background, `CREATE TABLE outcry_schema_version AS SELECT 3 AS version;
		CREATE VIEW exchange_state AS SELECT 7::bigint AS applied_seq,
			'00000000-0000-0000-0000-000000000001'::uuid AS journal_id, '' AS ack FROM pg_sleep(0.02)`)
	require.NoError(t, err)
	// The role has a statement timeout for other programs.
	for _, limit := range []string{"SET statement_timeout = 1", "RESET statement_timeout"} {
		_, err = conn.Exec(background,
			`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I `+limit+`', current_database()); END $$`)
		require.NoError(t, err)
		all := examined(t, healthy(), Options{DatabaseURL: url})
		requireFound(t, all["schema"], Warn, "version 3, this program's is", "take a backup before")
	}
	_, err = conn.Exec(background, `UPDATE outcry_schema_version SET version = 99`)
	require.NoError(t, err)
	requireFound(t, examined(t, healthy(), Options{DatabaseURL: url})["schema"], Bad, "version 99",
		"use the version of outcry")
	const secret = "opensesame"
	for _, url := range []string{"postgres://u:" + secret + "@127.0.0.1:1/x", "postgres://u:" + secret + "@[/x",
		"nonsense://u:" + secret + "@x"} {
		f := examined(t, healthy(), Options{DatabaseURL: url})["postgres"]
		requireFound(t, f, Bad, "", "correct --database-url")
		require.NotContains(t, fmt.Sprint(f), secret)
	}
}

// TestJournalAndDatabaseHaveToBelongTogether tries combinations that a start refuses, and some that it
// accepts.
func TestJournalAndDatabaseHaveToBelongTogether(t *testing.T) {
	url, none := pgtest.NewDatabase(t), t.TempDir()
	conn, err := pgx.Connect(background, url)
	require.NoError(t, err)
	defer conn.Close(background)
	// journalOf makes a journal with the records from first to last, with none if last is below first.
	journalOf := func(first, last uint64) (data string, id [16]byte) {
		data = t.TempDir()
		j, err := journal.Open(filepath.Join(data, "journal"),
			journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 12, FirstSeq: first})
		require.NoError(t, err)
		for seq := first; seq <= last; seq++ {
			_, err := j.Append([]byte("record"))
			require.NoError(t, err)
			require.NoError(t, j.Wait(background, seq))
		}
		require.NoError(t, j.Close())
		return data, j.ID()
	}
	ours, id := journalOf(5, 7)
	other, otherID := journalOf(5, 7)
	begun, begunID := journalOf(8, 7)
	unknown := [16]byte{}
	_, err = conn.Exec(background, `CREATE TABLE outcry_schema_version AS SELECT 1 AS version;
		CREATE TABLE exchange_state AS SELECT 0::bigint AS applied_seq, NULL::uuid AS journal_id, '' AS ack`)
	require.NoError(t, err)
	for _, test := range []struct {
		data          string
		applied       uint64
		follows       [16]byte
		ack           string
		grade         Grade
		value, advice string
	}{
		{ours, 7, id, "journal", OK, "up to record 7; the one in " + ours, ""},
		{ours, 4, id, "journal", OK, "up to record 4", ""},
		{ours, 7, unknown, "journal", OK, "up to record 7", ""},
		{ours, 3, id, "journal", Bad, "up to 3, and the journal in " + ours + "/journal begins at 5",
			"restore a newer backup"},
		{ours, 8, id, "journal", Bad, "up to 8, and the journal in " + ours + "/journal reaches only to 7",
			"bring back the journal"},
		{ours, 8, id, "postgres", Warn, "reaches only to 7", "bring back the journal"},
		{ours, 7, otherID, "postgres", Bad, "the database follows the journal", "of one exchange"},
		{other, 7, id, "journal", Bad, fmt.Sprintf("the database follows the journal %x up to record 7", id),
			"of one exchange"},
		{begun, 7, id, "journal", Bad, "is another one, without records", "bring back the journal"},
		{begun, 7, id, "postgres", Warn, "is another one, without records", "bring back the journal"},
		{begun, 7, begunID, "journal", OK, "up to record 7", ""},
		{none, 7, id, "journal", Bad, "up to 7, and there is no journal in " + none, "Lose the journal"},
		{none, 7, id, "postgres", Warn, "there is no journal in " + none, "Lose the journal"},
		{none, 0, id, "journal", Bad, "there is no journal in " + none, "Lose the journal"},
		{none, 0, unknown, "journal", OK, "there is no journal in " + none, ""},
	} {
		var follows *[16]byte
		if test.follows != unknown {
			follows = &test.follows
		}
		_, err = conn.Exec(background, `UPDATE exchange_state SET applied_seq = $1, journal_id = $2, ack = $3`,
			int64(test.applied), follows, test.ack)
		require.NoError(t, err)
		requireFound(t, examined(t, healthy(), Options{DatabaseURL: url, Data: test.data})["belongs"], test.grade,
			test.value, test.advice)
	}
}

func TestTheLocalClusterIsLookedAtWhileItRuns(t *testing.T) {
	c, dir := pgtest.NewCluster(t)
	data := t.TempDir()
	require.NoError(t, os.Symlink(dir, filepath.Join(data, "postgres")))
	m := healthy()
	m.disk = func(string) (disk, error) { return disk{kind: "ext4", size: 1 << 40, free: 2 << 30}, nil }
	all := examined(t, m, Options{Data: data})
	requireFound(t, all["fsync"], Bad, "off", "")
	requireFound(t, all["max_wal_size"], Warn, "4096 MiB, and 2048 MiB are free", "make room")
	require.NoError(t, c.Stop(background))
	requireFound(t, examined(t, healthy(), Options{Data: data})["postgres"], Warn, "is not running",
		"start outcryd and run outcry doctor again")
}

func TestARunningServerIsAsked(t *testing.T) {
	ready, token, forbidden := http.StatusOK, "", false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/metrics" && forbidden:
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/readyz":
			w.WriteHeader(ready)
			fmt.Fprintln(w, "because of this")
		default:
			fmt.Fprint(w,
				"# HELP x y\nprocess_max_fds 1024\noutcry_journal_room "+
					"0\noutcry_build_info{goversion=\"go1\",modified=\"false\",revision=\"abc\"} 1\n")
		}
	}))
	defer s.Close()
	o := Options{HTTP: s.Listener.Addr().String(), Revision: "abc"}
	all := examined(t, healthy(), o)
	requireFound(t, all["server"], OK, "/readyz says 200", "")
	requireFound(t, all["server version"], OK, "built from abc", "")
	requireFound(t, all["server's open files"], Warn, "1024 allowed", "to 20640")
	requireFound(t, all["server's journal"], Bad, "is 0", "make room")
	o.Revision = "def"
	requireFound(t, examined(t, healthy(), o)["server version"], Warn, "this program from def", "one version")
	ready = http.StatusServiceUnavailable
	requireFound(t, examined(t, healthy(), o)["server"], Bad, "503: because of this", "accepts no orders")
	token = "T"
	requireFound(t, examined(t, healthy(), o)["server"], Warn, "asks for a token", "")
	o.Token = "T"
	requireFound(t, examined(t, healthy(), o)["server"], Bad, "503", "")
	ready, forbidden = http.StatusOK, true
	all = examined(t, healthy(), o)
	requireFound(t, all["server"], OK, "200", "")
	requireFound(t, all["server version"], Warn, "/metrics answers 403", "of the scope read")
	s.Close()
	requireFound(t, examined(t, healthy(), o)["server"], Bad, "refused", "start outcryd")
}

// The server redirects /metrics to plain HTTP. The redirect must not be followed, because the token would be sent
// along.
func TestAServerWithTLSIsAsked(t *testing.T) {
	var shown []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization"))
		if r.URL.Path == "/metrics" {
			http.Redirect(w, r, "http://"+r.Host+"/elsewhere", http.StatusFound)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(s.Certificate())
	o := Options{HTTP: s.Listener.Addr().String(), Token: "T", TLS: &tls.Config{RootCAs: authorities}}
	all := examined(t, healthy(), o)
	requireFound(t, all["server"], OK, "/readyz says 200", "")
	requireFound(t, all["server version"], Warn, "/metrics answers 302", "")
	require.Equal(t, []string{"Bearer T", "Bearer T"}, shown)
	o.TLS = &tls.Config{}
	requireFound(t, examined(t, healthy(), o)["server"], Bad, "certificate", "start outcryd")
}

// TestADiskThatHangsEndsNoDoctor uses a disk on which a sync never returns.
func TestADiskThatHangsEndsNoDoctor(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs)
	m := healthy()
	m.patience = time.Millisecond
	m.sync = func(string, int, time.Duration) ([]time.Duration, error) {
		<-hangs
		return nil, nil
	}
	e := &examination{Options: Options{Data: t.TempDir()}, machine: m}
	e.within(background, "disk sync", (*examination).checkSync)
	require.Len(t, e.findings, 1)
	requireFound(t, e.findings[0], Bad, "could not be checked within 1ms", "dmesg")

	m.patience = time.Hour
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(10*time.Millisecond, cancel)
	e = &examination{Options: Options{Data: t.TempDir()}, machine: m}
	e.within(ctx, "disk sync", (*examination).checkSync)
	require.Equal(t, []Finding{{"disk sync", Warn, "not known: context canceled", "check it by hand"}}, e.findings)
}

// The journal has version 99.
func TestAJournalThatIsTooNewWantsANewerProgram(t *testing.T) {
	data := t.TempDir()
	j, err := journal.Open(filepath.Join(data, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 12})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	segment := filepath.Join(data, "journal", "00000000000000000001.seg")
	b, err := os.ReadFile(segment)
	require.NoError(t, err)
	binary.LittleEndian.PutUint32(b[8:], 99)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
	require.NoError(t, os.WriteFile(segment, b, 0o600))
	requireFound(t, examined(t, healthy(), Options{Data: data})["journal"], Bad, "has version 99",
		"use the version of outcry that the server has")
}
