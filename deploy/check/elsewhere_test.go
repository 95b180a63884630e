//go:build deploy

package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// elsewhere makes the service keep its data in another folder than the package's default.
func elsewhere(t *testing.T, m machine) {
	const units = "/run/systemd/system"
	m.run("systemctl stop outcryd && cp -a /etc/default/outcryd /root/outcryd.default && install -d -m 700 -o outcry -g " +
		"outcry /srv/elsewhere")
	m.run("for unit in outcryd outcry-backup; do mkdir -p " + units + "/$unit.service.d && " +
		"printf '[Service]\nReadWritePaths=/srv/elsewhere\n' > " + units +
		"/$unit.service.d/test.conf; done; systemctl daemon-reload")
	m.run("echo OUTCRY_DATA=/srv/elsewhere >> /etc/default/outcryd")
	m.run("rm -f /var/lib/outcry/last-backup && systemctl start outcryd && systemctl start outcry-backup")
	require.Equal(t, "/srv/elsewhere/last-backup",
		m.run("ls /srv/elsewhere/last-backup; ls /var/lib/outcry/last-backup 2>/dev/null || true"))

	// An operator's shell gets the same settings when it reads operator.sh.
	told := func(defaults string) string {
		out, err := m.shell("cat >> /etc/default/outcryd; bash -c '. /usr/share/outcry/operator.sh; echo data $OUTCRY_DATA "+
			"url $DATABASE_URL file $DATABASE_URL_FILE'", defaults)
		require.NoError(t, err, out)
		return out
	}
	require.Equal(t, "data /srv/elsewhere url postgres://u:p@h/d?a=b file", told("DATABASE_URL='postgres://u:p@h/d?a=b'"),
		"the last line has no end")
	m.run("sed -i /^DATABASE_URL=/d /etc/default/outcryd")
	require.Equal(t, "data /srv/elsewhere url file /etc/outcry/url", told("DATABASE_URL_FILE=\"/etc/outcry/url\"\n"))

	m.run("systemctl stop outcryd && cp -a /root/outcryd.default /etc/default/outcryd && rm -r /srv/elsewhere " + units +
		"/*.service.d/test.conf && " +
		"rm -f " + backups +
		"/*Z.backup && systemctl daemon-reload && systemctl start outcryd && systemctl start outcry-backup")
}
