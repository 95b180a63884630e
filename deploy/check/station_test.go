//go:build operations

package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// faster is the factor by which times in Prometheus' configuration and rules are shortened: an alert that waits for
// five minutes waits here for fifteen seconds.
const faster = 20

// operations are the pages that stations perform section by section.
var operations = []string{"docs/OPERATIONS.md", "docs/reference/PROCEDURES.md"}

// station is a machine as the operations pages describe it: with the package, the machine's Postgres, Prometheus with
// the alerts, and customers who trade all the time. The data directory is on a separate file system, which can be
// made small.
type station struct {
	machine
	shell *doctest.Shell
}

// openStation boots a station whose exchange accepts orders.
func openStation(t *testing.T) *station {
	t.Helper()
	s := &station{machine: boot(t)}
	s.install("1.0")
	require.Equal(t, "shared", s.run("findmnt --noheadings --output=PROPAGATION /"), "as on a machine that is no copy")
	s.run("mkdir -p /var/lib/outcry && mount -t tmpfs -o size=2G outcry-disk /var/lib/outcry")
	// The copied machine may have a Postgres cluster in an unknown state.
	s.run("rm -rf /var/lib/postgresql/15/main /etc/postgresql/15/main && pg_createcluster 15 main")
	// Small segments fill a small disk soon, a stop does not wait long for an absent Postgres, and systemd soon gives
	// up a server that cannot start.
	s.run(`mkdir -p /run/systemd/system/outcryd.service.d && ` +
		`printf '[Unit]\nStartLimitBurst=5\n[Service]\nEnvironment=OUTCRY_SEGMENT=65536 OUTCRY_STOP_TIMEOUT=5s\n' ` +
		`> /run/systemd/system/outcryd.service.d/test.conf`)
	s.run("systemctl daemon-reload")
	s.shell = s.openShell(patience)
	s.walk(t, "Start for the first time", nil)
	return s
}

// xmlAddresses and httpAddresses are the addresses of a cluster's nodes on a station.
const (
	xmlAddresses  = "127.0.0.1:12341,127.0.0.1:12342,127.0.0.1:12343"
	httpAddresses = "127.0.0.1:8081,127.0.0.1:8082,127.0.0.1:8083"
)

// openClusterStation boots a station with three nodes, each with a Postgres below its data directory, and waits until
// they are healthy.
func openClusterStation(t *testing.T) *station {
	t.Helper()
	s := &station{machine: boot(t)}
	s.install("1.0")
	s.run(`mkdir -p /run/systemd/system/outcryd@.service.d && printf '[Service]\n` +
		`Environment=OUTCRY_SEGMENT=65536 OUTCRY_STOP_TIMEOUT=5s\n' > /run/systemd/system/outcryd@.service.d/test.conf`)
	s.run("systemctl daemon-reload; for n in 1 2 3; do printf 'node = %s\npeers = 1=127.0.0.1:12351,2=127.0.0.1:12352," +
		"3=127.0.0.1:12353\nlisten = 127.0.0.1:1234%s\nhttp = 127.0.0.1:808%s\npeer-ca = /etc/outcry/peers/ca.pem\n" +
		"peer-cert = /etc/outcry/peers/%s.pem\npeer-key = /etc/outcry/peers/%s.key\n' $n $n $n $n $n > " +
		"/etc/outcry/$n.conf; done")
	s.run("/usr/libexec/outcry/peers.sh /etc/outcry/peers 1=127.0.0.1 2=127.0.0.1 3=127.0.0.1; " +
		"chgrp -R outcry /etc/outcry/peers; chmod -R g+rX /etc/outcry/peers")
	s.shell = s.openShell(patience, "OUTCRY_ADDR="+xmlAddresses, "OUTCRY_HTTP_ADDR="+httpAddresses)
	s.run("systemctl enable --now outcryd@1 outcryd@2 outcryd@3")
	s.startPrometheus(t, func(text string) string {
		return hasten(t, strings.Replace(text, `"127.0.0.1:8080"`, `"`+strings.ReplaceAll(httpAddresses, ",", `","`)+`"`, 1))
	})
	s.startCustomers(t, "OUTCRY_ADDR="+xmlAddresses+" OUTCRY_HTTP_ADDR="+httpAddresses)
	return s
}

// readPage reads and parses a page of the repository.
func readPage(t *testing.T, path string) *doctest.Page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, path))
	require.NoError(t, err)
	page, err := doctest.Parse(path, string(text))
	require.NoError(t, err)
	return page
}

// openShell starts a shell in the machine, which is closed when the test ends.
func (m machine) openShell(patience time.Duration, env ...string) *doctest.Shell {
	m.t.Helper()
	cmd := command(m.t, "nsenter", "--target="+m.pid, "--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup", "--root",
		"--wd",
		"bash", "--noprofile", "--norc")
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/root"}, env...)
	shell, err := doctest.NewShell(cmd, patience)
	require.NoError(m.t, err)
	m.t.Cleanup(shell.Close)
	return shell
}

// pageOf returns the operations page that has a section.
func pageOf(t *testing.T, section string) *doctest.Page {
	t.Helper()
	for _, path := range operations {
		page := readPage(t, path)
		if slices.Contains(slices.Concat(page.Titles(2), page.Titles(3)), section) {
			return page
		}
	}
	require.Fail(t, "no page of operations has this section", section)
	return nil
}

// walk performs a section of the pages. meanwhile has, by name, the actions of other people and machines during it.
func (s *station) walk(t *testing.T, section string, meanwhile map[string]func() error) {
	t.Helper()
	page := pageOf(t, section)
	parts, err := page.Section(section)
	require.NoError(t, err)
	if err := s.shell.Walk(t.Context(), page, parts, meanwhile); err != nil {
		require.NoError(t, err, "the log ends with\n%s",
			s.try("journalctl --no-pager --output=cat --unit='outcryd*' --lines=12"))
	}
}

// watch starts Prometheus, with shortened times, and customers in the machine.
func (s *station) watch(t *testing.T) {
	t.Helper()
	s.startPrometheus(t, func(text string) string { return hasten(t, text) })
	s.startCustomers(t, "")
}

// startCustomers starts bots with an environment variable, and waits until they trade.
func (s *station) startCustomers(t *testing.T, environment string) {
	t.Helper()
	s.run(`printf '[Service]\nExecStart=outcry-lab demo --rate 50\nEnvironment=` + environment +
		`\nRestart=always\nRestartSec=1\n[Unit]\nStartLimitIntervalSec=0\n' > /run/systemd/system/customers.service`)
	s.run("systemctl start customers")
	s.until(t, `outcry_ready == 1 and on (instance) sum by (instance) (outcry_orders_total) > 10`)
}

// startPrometheus starts Prometheus in the machine with this repository's files, each edited by change.
func (s *station) startPrometheus(t *testing.T, change func(text string) string) {
	t.Helper()
	s.run("mkdir -p /etc/outcry-prometheus")
	for _, name := range []string{"prometheus.yml", "recording.yml", "alerts.yml"} {
		text, err := os.ReadFile(filepath.Join(repository, "deploy/prometheus", name))
		require.NoError(t, err)
		out, err := s.machine.shell("cat > /etc/outcry-prometheus/"+name, change(string(text)))
		require.NoError(t, err, out)
	}
	s.run("promtool check config /etc/outcry-prometheus/prometheus.yml")
	s.run("systemd-run --quiet --collect --unit=prometheus-here prometheus " +
		"--config.file=/etc/outcry-prometheus/prometheus.yml " +
		"--storage.tsdb.path=/root/prometheus --web.listen-address=127.0.0.1:9090 --enable-feature=native-histograms")
	s.wait(t, `count(up == 1) == count(up)`, true)
}

// duration matches a time in Prometheus' files: the length of a range, or a setting.
var duration = regexp.MustCompile(`(\[|: )(\d+)([sm])(\]|\n)`)

// often matches the scrape and evaluation intervals. They are shortened less than the intervals of faster, because a
// scrape that takes longer than its interval is lost, which restarts the waiting time of alerts.
var often = regexp.MustCompile(`(scrape_interval|scrape_timeout|evaluation_interval): 5s`)

// hasten shortens the times in a file of Prometheus.
func hasten(t *testing.T, text string) string {
	t.Helper()
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute}
	text = often.ReplaceAllString(text, "$1: 500ms")
	text = duration.ReplaceAllStringFunc(text, func(found string) string {
		part := duration.FindStringSubmatch(found)
		n, err := strconv.Atoi(part[2])
		require.NoError(t, err)
		return fmt.Sprintf("%s%dms%s", part[1], (time.Duration(n) * units[part[3]] / faster).Milliseconds(), part[4])
	})
	return strings.ReplaceAll(text, "4 * 3600", fmt.Sprintf("4 * %d", 3600/faster))
}

// ask evaluates an expression, and returns the number of series in its result.
func (s *station) ask(t *testing.T, expr string) int {
	t.Helper()
	out := s.try(fmt.Sprintf("curl -s -m 10 --data-urlencode 'query=%s' http://127.0.0.1:9090/api/v1/query", expr))
	var answer struct {
		Status string
		Error  string
		Data   struct{ Result []any }
	}
	if json.Unmarshal([]byte(out), &answer) != nil {
		return 0 // Prometheus does not answer yet
	}
	require.Equal(t, "success", answer.Status, "%s: %s", expr, answer.Error)
	return len(answer.Data.Result)
}

// until waits until an expression has a result.
func (s *station) until(t *testing.T, expr string) {
	t.Helper()
	s.wait(t, expr, true)
}

// wait waits until an expression has a result, or has none if has is false.
func (s *station) wait(t *testing.T, expr string, has bool) {
	t.Helper()
	for begun := time.Now(); (s.ask(t, expr) > 0) != has; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 3*patience { // a late scrape on a busy machine restarts an alert's waiting time
			require.Fail(t, "it does not come about", "%s: %t; the logs and Prometheus's figures end with\n%s\n%s", expr, has,
				s.try("for unit in 'outcryd*' prometheus-here; do "+
					"journalctl --no-pager --output=cat --unit=$unit --lines=12; done"),
				s.try("for expr in up 'timestamp(up)' outcry_ready ALERTS; do curl -s -m 10 http://127.0.0.1:9090/api/v1/query "+
					`--data-urlencode "query=$expr"; done`))
		}
	}
}

// firing returns an expression that has a result while an alert fires.
func firing(alert string) string {
	return fmt.Sprintf(`ALERTS{alertname="%s",alertstate="firing"}`, alert)
}
