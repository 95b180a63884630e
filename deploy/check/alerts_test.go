//go:build operations

package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/harness"
	"outcry/internal/testing/budget"
)

// trouble describes how to cause an alert, and the steps of its runbook that people must do.
type trouble struct {
	alert     string
	comes     string // shell commands that break the station
	seen      string // expression that must hold in Prometheus before worse runs, unless ""
	worse     string // shell commands that break it further
	meanwhile map[string]string
	healed    string         // expression that must hold after the runbook and before ended runs, unless ""
	ended     string         // shell commands that restore what the runbook does not restore; may be ""
	slowly    bool           // the alert stops firing only long after its cause has ended
	bug       []harness.Edit // if set, edits that make a buggy outcryd, which is put at /root/outcryd
}

// Shell commands and expressions that several troubles share.
const (
	settings    = "/etc/outcry/outcryd.conf"
	environment = "/etc/default/outcryd"

	// forget removes the settings that a trouble has added.
	forget = "sed -i '/^[a-z]/d' " + settings + "; sed -i '/^OUTCRY_/d' " + environment + "; "

	// slowDisk delays each sync of the journal by the time appended to it. To the process this looks like a slow
	// disk, because its clock includes the delay.
	slowDisk = "systemd-run --quiet --collect --unit=slow-disk strace -f -qq -o /dev/null -p $(systemctl show outcryd " +
		"--value -p MainPID) " +
		"-e trace=fdatasync -e inject=fdatasync:delay_enter="
	fastDisk = "systemctl kill --signal=KILL slow-disk; while systemctl is-active --quiet slow-disk; do sleep 0.1; done"

	// someConnections runs a unit that holds 100 connections and sends nothing.
	someConnections = "systemd-run --quiet --collect --unit=many bash -c 'for i in {1..100}; do exec " +
		"{c}<>/dev/tcp/127.0.0.1/12345; done; sleep 1000'; "
	noConnections = "systemctl stop many"

	// loseTouch stops Postgres and leaves the exchange a small lag limit.
	loseTouch = "echo max-lag = 1000 >> " + settings + "; systemctl restart outcryd; systemctl stop postgresql@15-main"

	// lockTables makes the projector wait for a table lock.
	lockTables = "systemd-run --quiet --collect --unit=reader --uid=postgres psql -d outcry -c 'BEGIN; LOCK TABLE " +
		"accounts IN SHARE MODE; SELECT pg_sleep(1000)'; " +
		`cd /; until [ "$(runuser -u postgres -- psql -Atqc "SELECT count(*) FROM pg_stat_activity ` +
		`WHERE wait_event = 'PgSleep'")" = 1 ]; do sleep 0.1; done; `
	// caughtUp is true once the tables have nearly all trades.
	caughtUp = "outcry_postgres_up == 1 and outcry_postgres_lag_records < 100"

	unlockTables = `cd / && runuser -u postgres -- psql -Atqc "SELECT pg_terminate_backend(pid) FROM pg_stat_activity ` +
		`WHERE query LIKE 'BEGIN; LOCK%'"`
)

// The troubles of each station, in the order in which the station goes through them.
var (
	troublesOfProcessAndRoom = []trouble{
		{alert: "OutcryRestartLoop",
			comes: "for i in 1 2 3; do before=$(systemctl show outcryd --value -p MainPID); systemctl kill --signal=KILL " +
				"outcryd; " +
				"while [ $(systemctl show outcryd --value -p MainPID) = $before ] || [ $(systemctl is-active outcryd) != active " +
				"]; do sleep 0.1; done; until curl -s http://127.0.0.1:9090/api/v1/query --data-urlencode " +
				"\"query=changes(process_start_time_seconds{job='outcry'}[45s]) >= $i\" | grep -q '\"value\"'; " +
				"do sleep 0.1; done; done",
			slowly: true},
		{alert: "OutcryDown", comes: "echo OUTCRY_MAX_LAG=lots >> " + environment +
			"; systemctl restart --no-block outcryd; " +
			"while [ $(systemctl show outcryd --value -p ActiveState) != failed ]; do sleep 0.1; done",
			meanwhile: map[string]string{"somebody corrects the setting": forget}},
		{alert: "OutcryNotReady", comes: "systemctl stop postgresql@15-main; systemctl kill --signal=KILL outcryd"},
		{alert: "OutcryDiskFillsUp",
			// This trouble must come before those that free space, because the alert extrapolates the last 90 seconds.
			comes: "mount -o remount,size=200M /var/lib/outcry; fallocate -l 120M /var/lib/outcry/dump; " +
				"systemd-run --quiet --collect --unit=backup bash -c 'while :; do head -c 200k /dev/zero >> " +
				"/var/lib/outcry/dump; sleep 0.5; done'",
			meanwhile: map[string]string{
				"somebody ends what writes, and removes it": "systemctl stop backup; rm /var/lib/outcry/dump; mount -o " +
					"remount,size=2G /var/lib/outcry"}},
		{alert: "OutcryJournalNoRoom",
			// The dumper uses up the space of deleted journal segments at once.
			comes: "mount -o remount,size=16M /var/lib/outcry && systemd-run --quiet --collect --unit=dumper " +
				"bash -c 'while :; do cat /dev/zero >> /var/lib/outcry/core.4711; sleep 0.05; done'",
			meanwhile: map[string]string{
				"somebody makes room": "systemctl stop dumper; rm /var/lib/outcry/core.4711; mount -o remount,size=2G " +
					"/var/lib/outcry"}},
		{alert: "OutcryDiskLow", comes: "mount -o remount,size=100M /var/lib/outcry",
			meanwhile: map[string]string{"somebody makes room": "mount -o remount,size=2G /var/lib/outcry"}},
	}
	troublesOfBackupsAndSyncs = []trouble{
		{alert: "OutcryBackupOld",
			comes: "systemctl enable outcry-backup.timer; mkdir -p /var/lib/outcry-backups; mount -t tmpfs -o size=4k backups " +
				"/var/lib/outcry-backups; " +
				"! systemctl start outcry-backup && touch --date='4 hours ago' /var/lib/outcry/last-backup && chown outcry: " +
				"/var/lib/outcry/last-backup",
			meanwhile: map[string]string{"somebody makes room for backups": "mount -o remount,size=1G /var/lib/outcry-backups"}},
		{alert: "OutcrySyncSlow", comes: slowDisk + "100000",
			meanwhile: map[string]string{"the disk is fast again": fastDisk}},
		{alert: "OutcryJournalStalled", comes: slowDisk + "20000000",
			meanwhile: map[string]string{"the disk is fast again": fastDisk}},
		{alert: "OutcryLatencyHigh", comes: slowDisk + "300000",
			meanwhile: map[string]string{"the disk is fast again": fastDisk},
			healed:    `instance:outcry_request_seconds:quantile{quantile="0.99"} < 0.25`},
	}
	troublesOfPostgres = []trouble{
		{alert: "OutcryPostgresDown", comes: "systemctl stop postgresql@15-main", healed: caughtUp},
		{alert: "OutcryPostgresLagGrowing", comes: lockTables, healed: caughtUp},
		{alert: "OutcryPostgresLagNearLimit", comes: loseTouch, healed: caughtUp,
			ended: forget + "systemctl restart outcryd"},
		{alert: "OutcryRefusing", comes: loseTouch, healed: "instance:outcry_commands_refused:rate1m == 0",
			ended: forget + "systemctl restart outcryd"},
	}
	troublesOfClientsAndFiles = []trouble{
		{alert: "OutcryClientErrors",
			comes: "systemctl stop customers; systemd-run --quiet --collect --unit=confused bash -c 'while :; do curl -s " +
				"-d \"<order/>\" http://127.0.0.1:8080/xml; sleep 0.1; done'",
			meanwhile: map[string]string{"the client is corrected": "systemctl stop confused"},
			ended:     "systemctl start customers"},
		{alert: "OutcryConnectionsNearLimit", comes: "echo max-connections = 110 >> " + settings +
			"; systemctl restart outcryd; " + someConnections,
			ended: noConnections + "; " + forget + "systemctl restart outcryd"},
		{alert: "OutcryAcceptErrors",
			comes: "printf '[Service]\nLimitNOFILE=64\n' > /run/systemd/system/outcryd.service.d/few.conf; systemctl " +
				"daemon-reload; systemctl restart outcryd",
			seen: "process_max_fds{job=\"outcry\"} == 64", worse: someConnections,
			healed: "process_max_fds{job=\"outcry\"} > 64", ended: noConnections},
		// A killed server leaves records that Postgres does not have; while Postgres is down they cannot be written.
		{alert: "OutcryMarketFeedDown", comes: "echo ack = postgres >> " + settings +
			"; systemctl stop postgresql@15-main; sleep 1; " +
			"systemctl kill --signal=KILL outcryd; systemctl stop outcryd; systemctl start postgresql@15-main; " + lockTables +
			"systemctl start --no-block outcryd",
			meanwhile: map[string]string{"the lock is gone": unlockTables}, healed: "outcry_market_feed_up == 1",
			ended: forget + "systemctl restart outcryd"},
		// The bug: a deposit of shares of VIEW ends the view.
		{alert: "OutcryAccountViewDown",
			bug: []harness.Edit{{File: "internal/view/accounts/apply.go",
				Old: "if !to.post(of, &p) {",
				New: "if e.Symbol == \"VIEW\" || !to.post(of, &p) {"}},
			comes: "systemctl stop outcryd && cp /root/outcryd /usr/bin/outcryd && systemctl start outcryd && " +
				"outcry account 77 0 && outcry place 77 VIEW 1",
			meanwhile: map[string]string{"a version without the bug is installed": "dpkg --install /root/outcry.deb"},
			healed:    "outcry_account_view_up == 1"},
		expiring, notReloaded,
		// The bug: a buyer does not get back the rest of the hold after executing at a better price.
		{alert: "OutcryImbalance",
			bug: lostChange,
			comes: "systemctl stop outcryd && cp /root/outcryd /usr/bin/outcryd && systemctl start outcryd && outcry account " +
				"1 1000 && outcry account 2 0 && " +
				"outcry place BUG 2 10 && outcry sell 2 BUG 1 10 && outcry buy 1 BUG 1 20",
			meanwhile: map[string]string{"a version without the bug is installed": "dpkg --install /root/outcry.deb"},
			healed:    "outcry_cash_imbalance_dollars == 0 and outcry_share_imbalance_symbols == 0"},
	}
)

// lostChange is a planted bug: a buyer does not get back the rest of the hold after executing at a better price.
var lostChange = []harness.Edit{{File: "internal/exchange/ledger.go",
	Old: "\tbuyer.balance = buyer.balance.Add(hold.Sub(price))\n", New: "\t_ = hold.Sub(price)\n"}}

// TestEveryAlertHasARunbook compares the alerts with the runbooks on the page.
func TestEveryAlertHasARunbook(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "deploy/prometheus/alerts.yml"))
	require.NoError(t, err)
	var alerts, runbooks, tried []string
	for _, found := range regexp.MustCompile(`(?m)^      - alert: (\w+)$`).FindAllStringSubmatch(string(text), -1) {
		alerts = append(alerts, found[1])
	}
	for _, title := range readPage(t, "docs/OPERATIONS.md").Titles(3) {
		if strings.HasPrefix(title, "Outcry") {
			runbooks = append(runbooks, title)
		}
	}
	for _, trouble := range allTroubles() {
		tried = append(tried, trouble.alert)
	}
	slices.Sort(alerts)
	slices.Sort(runbooks)
	slices.Sort(tried)
	require.Equal(t, alerts, runbooks)
	require.Equal(t, alerts, tried)
}

// allTroubles returns the troubles of all stations.
func allTroubles() []trouble {
	return slices.Concat(troublesOfProcessAndRoom, troublesOfBackupsAndSyncs, troublesOfPostgres,
		troublesOfClientsAndFiles, troublesOfClusters)
}

func TestRunbooksOfProcessAndRoom(t *testing.T) {
	t.Parallel()
	perform(t, troublesOfProcessAndRoom)
}

func TestRunbooksOfBackupsAndSyncs(t *testing.T) {
	budget.SkipShort(t, "the runbooks of one station are enough for CI")
	t.Parallel()
	perform(t, troublesOfBackupsAndSyncs)
}

func TestRunbooksOfPostgres(t *testing.T) {
	budget.SkipShort(t, "the runbooks of one station are enough for CI")
	t.Parallel()
	perform(t, troublesOfPostgres)
}

func TestRunbooksOfClientsAndFiles(t *testing.T) {
	budget.SkipShort(t, "the runbooks of one station are enough for CI")
	t.Parallel()
	perform(t, troublesOfClientsAndFiles)
}

// perform opens a station. For each trouble it causes the alert until a real Prometheus fires it, performs the
// runbook, and waits until the alert has stopped.
func perform(t *testing.T, troubles []trouble) {
	s := openStation(t)
	s.watch(t)
	s.goThrough(t, troubles)
}

// goThrough does the same as perform, on a station that Prometheus already watches.
func (s *station) goThrough(t *testing.T, troubles []trouble) {
	t.Helper()
	var pending []string // slow alerts that may still fire
	for _, trouble := range troubles {
		if !t.Run(trouble.alert, func(t *testing.T) { s.t = t; s.has(t, trouble) }) {
			return // the next trouble needs a healthy station
		}
		if trouble.slowly {
			pending = append(pending, trouble.alert)
		}
		pending = slices.DeleteFunc(pending, func(alert string) bool { return s.ask(t, firing(alert)) == 0 })
	}
	s.t = t
	for _, alert := range pending {
		s.wait(t, firing(alert), false)
	}
}

// has causes the trouble, waits for its alert, and follows its runbook.
func (s *station) has(t *testing.T, trouble trouble) {
	s.wait(t, firing(trouble.alert), false)    // an earlier trouble may have caused the same alert
	s.run("systemctl reset-failed 'outcryd*'") // the tests restart too often for systemd's limit
	if trouble.bug != nil {
		root, err := filepath.Abs(repository)
		require.NoError(t, err)
		program, err := harness.Build(t.Context(), root, "./cmd/outcryd", t.TempDir(), trouble.bug...)
		require.NoError(t, err)
		b, err := os.ReadFile(program)
		require.NoError(t, err)
		out, err := s.machine.shell("cat > /root/outcryd && chmod 755 /root/outcryd", string(b))
		require.NoError(t, err, out)
	}
	meanwhile := map[string]func() error{}
	for name, script := range trouble.meanwhile {
		meanwhile[name] = func() error { s.run(script); return nil }
	}
	s.run(trouble.comes)
	if trouble.seen != "" {
		s.until(t, trouble.seen)
		s.run(trouble.worse)
	}
	s.until(t, firing(trouble.alert))
	s.walk(t, trouble.alert, meanwhile)
	if trouble.healed != "" {
		s.until(t, trouble.healed)
	}
	if trouble.ended != "" {
		s.run(trouble.ended)
	}
	if !trouble.slowly {
		s.wait(t, firing(trouble.alert), false)
	}
	s.until(t, "outcry_ready == 1")
}
