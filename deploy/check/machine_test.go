//go:build deploy

package check

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// property returns a property of the outcryd service in systemd.
func (m machine) property(name string) string {
	m.t.Helper()
	return m.run("systemctl show outcryd --value --property=" + name)
}

// TestThePackageFromInstallToPurge takes one installation through its whole life, on one machine; each step continues
// from the last.
func TestThePackageFromInstallToPurge(t *testing.T) {
	t.Parallel()
	m := boot(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, machine)
	}{
		{"an installation enables and starts nothing", installed},
		{"the service trades in its sandbox with a Postgres of its own", trades},
		{"backups are taken by a timer, and the newest are kept", backedUp},
		{"data elsewhere is backed up, and told of, there", elsewhere},
		{"a server that hangs is ended and started again", hangs},
		{"a reload takes settings over while it runs, and refuses wrong ones", reloaded},
		{"an upgrade restarts the service and keeps what was traded", upgraded},
		{"an upgrade does not wait for ever for a database that is away", upgradedWithoutDatabase},
		{"the exchange listens once the network is there, and is not given up at once", comesUpLate},
		{"a removal stops the service and keeps what was traded", removed},
		{"a purge keeps what was traded unless that is asked for", purged},
	} {
		if !t.Run(part.name, func(t *testing.T) { m.t = t; part.test(t, m) }) {
			return
		}
	}
}

func installed(t *testing.T, m machine) {
	m.install("1.0")
	require.Equal(t, "disabled", m.try("systemctl is-enabled outcryd"))
	require.Equal(t, "inactive", m.try("systemctl is-active outcryd"))
	require.Equal(t,
		"root root 755 /usr/bin/outcry\nroot root 755 /usr/bin/outcry-lab\nroot root 755 /usr/bin/outcryd\n"+
			"root root 640 /etc/default/outcryd\nroot root 644 /etc/outcry/outcryd.conf\n"+
			"root root 644 /lib/systemd/system/outcryd.service", m.run(
			"stat -c '%U %G %a %n' /usr/bin/outcry /usr/bin/outcry-lab /usr/bin/outcryd /etc/default/outcryd "+
				"/etc/outcry/outcryd.conf /lib/systemd/system/outcryd.service"))
	require.Contains(t, m.run("outcryd --version"), "outcryd")
	require.Equal(t, "/var/lib/outcry:/usr/sbin/nologin", m.run("getent passwd outcry | cut -d: -f6-"))
	require.Empty(t, m.run("systemd-analyze verify --man=no outcryd.service outcryd@1.service"))
	node := m.run("systemctl cat outcryd@1")
	for _, line := range []string{"Description=Outcry exchange %i", "EnvironmentFile=-/etc/default/outcryd-%i",
		"Environment=OUTCRY_CONFIG=-/etc/outcry/%i.conf", "Environment=OUTCRY_DATA=/var/lib/outcry/%i",
		"StateDirectory=outcry/%i"} {
		require.Contains(t, node, "\n"+line+"\n", "a node beside others has files of its own")
	}
}

func trades(t *testing.T, m machine) {
	m.run("systemctl enable --now outcryd") // returns once the exchange is ready
	require.Equal(t, "taking orders", m.property("StatusText"))
	m.run("outcry account 1 1000 && outcry account 2 0 && outcry place SPY 2 10 && outcry sell 2 SPY 10 5")
	require.Equal(t, "order 2 buys 4 SPY at 6", m.run("outcry buy 1 SPY 4 6"))
	require.Equal(t, "ready", m.run("outcryd --health"))

	status := m.run("cat /proc/" + m.property("MainPID") + "/status")
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000000000"} {
		require.Contains(t, status, want)
	}
	require.Equal(t, "outcry outcry 700", m.run("stat -c '%U %G %a' /var/lib/outcry"))
	require.Empty(t, m.run("find /etc /run /usr /var /home /root -xdev -user outcry -not -path '/var/lib/outcry*'"),
		"it writes nowhere else")

	// As in docs/DEPLOYMENT.md: the socket is in a /tmp that only the service sees.
	psql := "nsenter --target=" + m.property("MainPID") + " --mount runuser -u outcry -- " +
		"psql -h /var/lib/outcry/postgres/socket -U outcry -At postgres -c "
	var said string
	if !assert.Eventually(t, func() bool {
		said = m.try(psql + `"SELECT sum(shares) FROM executions"`)
		return said == "4"
	}, patience, 50*time.Millisecond) {
		require.Fail(t, said, m.try("journalctl --no-pager --unit=outcryd"))
	}
}

func hangs(t *testing.T, m machine) {
	m.run(`mkdir -p /run/systemd/system/outcryd.service.d && printf '[Service]\nWatchdogSec=5\n' ` +
		`> /run/systemd/system/outcryd.service.d/test.conf`)
	m.run("systemctl daemon-reload && systemctl restart outcryd")
	before := m.property("MainPID")
	m.run("kill -STOP " + before)
	require.Eventually(t, func() bool {
		return m.property("NRestarts") != "0" && m.property("ActiveState") == "active"
	}, patience, 50*time.Millisecond)
	require.NotEqual(t, before, m.property("MainPID"))
	log := m.run("journalctl --no-pager --unit=outcryd")
	require.Contains(t, log, "Watchdog timeout")
	require.Contains(t, log, "SIGABRT", "it says what every goroutine did")
	require.Contains(t, m.run("outcry query 1 2"), "executed  4 at 5")
	m.run("rm -r /run/systemd/system/outcryd.service.d && systemctl daemon-reload && systemctl restart outcryd")
}

func reloaded(t *testing.T, m machine) {
	before := m.property("MainPID")
	m.run("echo max-connections = 78 >> /etc/outcry/outcryd.conf && systemctl reload outcryd")
	limit := `bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 ` +
		`&& grep ^outcry_connections_limit <&3'`
	require.Eventually(t, func() bool { return m.try(limit) == "outcry_connections_limit 78" }, patience,
		50*time.Millisecond)
	require.Contains(t,
		m.try("cp /etc/outcry/outcryd.conf /root/ && echo max-connections = 79 >> /etc/outcry/outcryd.conf && "+
			"systemctl reload outcryd; echo status $?"), "status 1")
	require.Contains(t, m.run("journalctl --sync; journalctl --no-pager --unit=outcryd"),
		"max-connections already has a value in line")
	require.Equal(t, "outcry_connections_limit 78", m.run(limit))
	m.run("cp /root/outcryd.conf /etc/outcry/outcryd.conf && systemctl reload outcryd")
	require.Equal(t, "active", m.run("systemctl is-active outcryd"))
	require.Equal(t, before, m.property("MainPID"))
	require.Equal(t, "taking orders", m.property("StatusText"))
}

func upgraded(t *testing.T, m machine) {
	m.run("echo OUTCRY_MAX_CONNECTIONS=77 >> /etc/default/outcryd && systemctl restart outcryd")
	before := m.property("MainPID")
	m.install("1.1")
	require.Contains(t, m.run("dpkg-query --show outcry"), "1.1")
	require.Contains(t, m.run("cat /etc/default/outcryd"), "OUTCRY_MAX_CONNECTIONS=77", "settings are people's own")
	require.Equal(t, "active", m.run("systemctl is-active outcryd"))
	require.NotEqual(t, before, m.property("MainPID"))
	require.Equal(t, "enabled", m.run("systemctl is-enabled outcryd"))
	require.Contains(t, m.run("outcry query 1 2"), "executed  4 at 5")

	require.NotContains(t, m.run("cat /etc/default/outcryd"), "\nOUTCRY_OPEN", "it listens on this machine alone")

	// A server that was started before --open existed listens beyond this machine without that flag.
	m.run("cp /etc/default/outcryd /root/before-open && printf 'OUTCRY_LISTEN=:12345\nOUTCRY_OPEN=true\n' >> " +
		"/etc/default/outcryd && " +
		"systemctl restart outcryd && sed -i /^OUTCRY_OPEN=/d /etc/default/outcryd")
	m.install("1.1.1")
	require.Equal(t, "active", m.run("systemctl is-active outcryd"), "it goes on")
	require.Equal(t, "OUTCRY_OPEN=true", m.run("tail -n 1 /etc/default/outcryd"))
	m.install("1.1.2")
	require.Equal(t, "1", m.run("grep -c ^OUTCRY_OPEN= /etc/default/outcryd"), "once")
	m.run("cp /root/before-open /etc/default/outcryd && systemctl restart outcryd")

	stoppedWhileUpgraded(t, m)
	m.run("systemctl stop outcryd")
	m.install("1.2")
	require.Equal(t, "inactive", m.try("systemctl is-active outcryd"), "one that did not run is not started")
	m.run("systemctl start outcryd")
}

// stoppedWhileUpgraded upgrades a server that is stopped and set to listen beyond this machine. Only if the old
// version predates --open, and the service is enabled, does the upgrade add OUTCRY_OPEN.
func stoppedWhileUpgraded(t *testing.T, m machine) {
	opened := func(version string) bool {
		m.install(version)
		require.Equal(t, "inactive", m.try("systemctl is-active outcryd"))
		return m.try("grep -c ^OUTCRY_OPEN= /etc/default/outcryd") == "1"
	}
	m.run("systemctl stop outcryd && echo OUTCRY_LISTEN=:12345 >> /etc/default/outcryd")
	require.False(t, opened("1.1.3"), "1.1.2 would have refused")
	require.False(t, opened("0~20261101000000.0123abc"), "so would 1.1.3")
	m.run("systemctl disable outcryd")
	require.False(t, opened("0~20261101000001.0123abc"), "it is not in use")
	m.run("systemctl enable outcryd")
	require.True(t, opened("1.1.4"))
	m.run("cp /root/before-open /etc/default/outcryd && systemctl start outcryd")
}

// upgradedWithoutDatabase limits dpkg's wait for the server to two seconds. A dpkg that waited for the database would
// never end.
func upgradedWithoutDatabase(t *testing.T, m machine) {
	m.run("cp /etc/default/outcryd /root/settings && echo DATABASE_URL=postgres://nobody@127.0.0.1:1/nothing >> " +
		"/etc/default/outcryd")
	out := m.run("OUTCRY_UPGRADE_WAIT=2 timeout 60 dpkg --install /root/outcry.deb 2>&1")
	require.Contains(t, out, "outcryd does not take orders yet; see: systemctl status outcryd")
	require.Equal(t, "install ok installed", m.run("dpkg-query --show --showformat='${Status}' outcry"))
	require.Equal(t, "activating", m.property("ActiveState"), "the restart goes on by itself")
	m.run("cp /root/settings /etc/default/outcryd && systemctl restart outcryd")
	require.Contains(t, m.run("outcry query 1 2"), "executed  4 at 5")
}

// comesUpLate sets an address that the machine gets only after the exchange has failed to start more often than
// systemd's default allows.
func comesUpLate(t *testing.T, m machine) {
	require.Contains(t, m.property("After"), "network-online.target")
	require.Contains(t, m.property("Wants"), "network-online.target")
	m.run("systemctl reset-failed outcryd; printf " +
		"'OUTCRY_LISTEN=192.0.2.7:12345\nOUTCRY_HTTP=192.0.2.7:8080\nOUTCRY_OPEN=true\n' >> /etc/default/outcryd && " +
		"systemctl --no-block restart outcryd")
	require.Eventually(t, func() bool {
		n, err := strconv.Atoi(m.property("NRestarts"))
		return err == nil && n > 6
	}, patience, 50*time.Millisecond)
	m.run("ip address add 192.0.2.7/32 dev lo")
	require.Eventually(t, func() bool { return m.property("ActiveState") == "active" }, patience, 50*time.Millisecond)
	require.Contains(t, m.run("outcry --addr 192.0.2.7:12345 query 1 2"), "executed  4 at 5")
	// A web page can point its host name at this address (DNS rebinding). Requests with such a name are refused.
	asks := func(host string) string {
		return m.run("bash -c \"exec 3<>/dev/tcp/192.0.2.7/8080; printf 'GET /healthz HTTP/1.1\r\nHost: " + host +
			"\r\nConnection: close\r\n\r\n' >&3; head -n 1 <&3\"")
	}
	require.Contains(t, asks("192.0.2.7:8080"), "200")
	require.Contains(t, asks("evil.example"), "403")
	m.run("cp /root/settings /etc/default/outcryd && systemctl restart outcryd")
}

func removed(t *testing.T, m machine) {
	m.run("dpkg --remove outcry")
	require.Empty(t, m.try("pgrep outcryd; pgrep postgres"))
	require.Contains(t, m.run("cat /etc/default/outcryd"), "OUTCRY_MAX_CONNECTIONS=77")
	m.run("test ! -e /usr/bin/outcryd && test -d /var/lib/outcry/journal")
	m.install("1.2")
	m.run("systemctl start outcryd")
	require.Contains(t, m.run("outcry query 1 2"), "executed  4 at 5")
}

func purged(t *testing.T, m machine) {
	m.run("dpkg --purge outcry")
	m.run("test ! -e /etc/default/outcryd && test ! -e /etc/outcry && test ! -e " +
		"/etc/systemd/system/multi-user.target.wants/outcryd.service")
	m.run("test -d /var/lib/outcry/journal && getent passwd outcry")
	m.install("1.2")
	m.run("OUTCRY_PURGE_DATA=yes dpkg --purge outcry")
	m.run("test ! -e /var/lib/outcry && ! getent passwd outcry && test ! -e " +
		"/etc/systemd/system/timers.target.wants/outcry-backup.timer")
	require.Equal(t, "root root 700",
		m.run("ls /var/lib/outcry-backups/*Z.backup >/dev/null && stat -c '%U %G %a' /var/lib/outcry-backups"),
		"backups outlive what they are of")
}
