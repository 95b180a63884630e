//go:build deploy

package check

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	backups = "/var/lib/outcry-backups"

	// everySecond makes the timer elapse each second instead of each hour.
	everySecond = `mkdir -p /run/systemd/system/outcry-backup.timer.d && ` +
		`printf '[Timer]\nOnCalendar=\nOnCalendar=*:*:0/1\nRandomizedDelaySec=0\nAccuracySec=10ms\n' ` +
		"> /run/systemd/system/outcry-backup.timer.d/test.conf && systemctl daemon-reload && systemctl restart " +
		"outcry-backup.timer"
	everyHour = "rm -r /run/systemd/system/outcry-backup.timer.d && systemctl daemon-reload && systemctl restart " +
		"outcry-backup.timer; " +
		"while [ $(systemctl show outcry-backup --value -p ActiveState) = activating ]; do sleep 0.1; done"

	// manyOrders places enough orders to make a backup larger than the 4 KiB of the smallest disk.
	manyOrders = `bash -c 'x="<transactions id=\"1\">$(printf "<order sym=\"SPY\" amount=\"1\" limit=\"1.%d\"/>" ` +
		`{1..300})</transactions>"; ` +
		`exec 3<>/dev/tcp/127.0.0.1/12345 && printf "%s\n%s" ${#x} "$x" >&3 && read -r <&3'`
)

// backedUp lets the package's timer take backups: while the exchange runs, while it is stopped (with its local
// Postgres), with a limit on how many are kept, and without enough disk space.
func backedUp(t *testing.T, m machine) {
	require.Equal(t, "disabled", m.try("systemctl is-enabled outcry-backup.timer"))
	require.Empty(t, m.run("systemd-analyze verify --man=no outcry-backup.timer outcry-backup.service"))
	m.run("systemctl enable --now outcry-backup.timer")
	require.NotEmpty(t, m.run("systemctl show outcry-backup.timer --value --property=NextElapseUSecRealtime"),
		"it will be")

	m.run("echo BACKUP_KEEP=2 >> /etc/default/outcryd && mkdir -m 700 " + backups + " && cd " + backups +
		" && touch 20200101T000000Z.backup 20200101T000000Z.backup.partial monday.backup && chown -R outcry:outcry .")
	m.run(everySecond)
	seen := map[string]bool{}
	require.Eventually(t, func() bool {
		for name := range strings.FieldsSeq(m.try("cd " + backups + " && ls *Z.backup")) {
			seen[name] = true
		}
		return len(seen) > 3
	}, patience, 50*time.Millisecond)
	m.run(everyHour)
	names := strings.Fields(m.run("cd " + backups + " && ls"))
	require.Len(t, names, 3, names)
	require.Equal(t, "monday.backup", names[2], "what is not its own stays")
	require.NotContains(t, names, "20200101T000000Z.backup", "the oldest are gone")
	require.Contains(t, m.run("outcry restore --check "+backups+"/"+names[1]), "is complete")
	require.Equal(t, "outcry outcry 600", m.run("stat -c '%U %G %a' "+backups+"/"+names[1]))
	told := "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080 && printf \"GET /metrics HTTP/1.0\r\n\r\n\" >&3 && grep " +
		"^outcry_last_backup_timestamp_seconds <&3'"
	require.Regexp(t, `_seconds 1\.\d+e\+09$`, m.run(told))

	m.run("systemctl stop outcryd; while [ -e " + backups +
		"/$(date -u +%Y%m%dT%H%M%SZ).backup ]; do sleep 0.1; done; systemctl start outcry-backup.service")
	require.Empty(t, m.try("pgrep postgres"), "the Postgres that was started for it is stopped")
	require.Equal(t, "success", m.run("systemctl show outcry-backup --value --property=Result"))
	m.run("systemctl start outcryd")

	// The backups are now on a separate disk that is too small: the first backup turns out to be too large, and later
	// ones are not started. The local Postgres that is started for a backup is on another disk.
	m.run(manyOrders)
	m.run("systemctl stop outcryd")
	m.run("mount -t tmpfs -o size=4k small " + backups)
	require.Contains(t,
		m.try("systemctl start outcry-backup; journalctl --sync; "+
			"journalctl --no-pager --output=cat --unit=outcry-backup --lines=8"),
		"larger than the limit of 4096 bytes")
	m.run("systemctl start outcryd")
	require.Empty(t, m.run("ls "+backups))
	m.run("truncate --size=1M " + backups + "/20200101T000000Z.backup")
	require.Contains(t,
		m.try("systemctl start outcry-backup; journalctl --sync; "+
			"journalctl --no-pager --output=cat --unit=outcry-backup --lines=8"),
		"no room in "+backups)
	require.Equal(t, "20200101T000000Z.backup", m.run("ls "+backups), "nothing is removed to make room")
	m.run("umount " + backups)
	require.Contains(t, m.try("BACKUP_KEEP=none /usr/libexec/outcry/outcry-backup "+backups), `not "none"`)
	m.run("sed -i /BACKUP_KEEP=2/d /etc/default/outcryd")
}
