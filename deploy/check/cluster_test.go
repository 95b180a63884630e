//go:build operations

package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// troublesOfClusters are the troubles of a station with three nodes, in the order in which it causes them.
var troublesOfClusters = []trouble{
	{alert: "OutcryNoLeader", comes: "systemctl stop outcryd@1 outcryd@2", healed: clusterWell},
	{alert: "OutcryNodeBehind", comes: "systemctl stop outcryd@3", healed: clusterWell},
	{alert: "OutcryNoSpareNode",
		comes: "systemctl kill --signal=KILL outcryd@3; systemctl stop outcryd@3; rm -rf /var/lib/outcry/3/*; " +
			"systemctl start outcryd@3 || true",
		healed: clusterWell},
	{alert: "OutcryNodeUnfit", comes: aStandby + "systemd-run --quiet --collect --unit=slow-disk strace -f -qq -o " +
		"/dev/null -p $(systemctl show outcryd@$n --value -p MainPID) -e trace=fdatasync -e " +
		"inject=fdatasync:delay_enter=20000000",
		meanwhile: map[string]string{"the disk is fast again": fastDisk}, healed: clusterWell},
	// Node 3 has the bug lostChange, and node 2 is down.
	{alert: "OutcryDigestsDiffer", bug: lostChange,
		comes: "systemctl stop customers; cp /root/outcryd /usr/bin/outcryd-bug; " +
			"mkdir /run/systemd/system/outcryd@3.service.d; " +
			"printf '[Service]\nExecStart=\nExecStart=/usr/bin/outcryd-bug\n' > " +
			"/run/systemd/system/outcryd@3.service.d/bug.conf; systemctl daemon-reload; systemctl restart outcryd@3; " +
			nodes + "outcry cluster transfer 1; systemctl stop outcryd@2; outcry account 901 1000; outcry account 902 0; " +
			"outcry place BUG 902 10; outcry sell 902 BUG 1 10; outcry buy 901 BUG 1 20; " +
			"systemd-run --quiet --collect --unit=looks bash -c 'while :; do outcry --http " + httpAddresses +
			" cluster status; sleep 1; done'",
		meanwhile: map[string]string{"a version without the bug is installed, and the node replaced": nodes +
			"rm -r /run/systemd/system/outcryd@3.service.d; systemctl daemon-reload; systemctl stop outcryd@3; " +
			"rm -rf /var/lib/outcry/3/*; sed -i '/^join/d' /etc/outcry/3.conf; echo 'join = true' >> /etc/outcry/3.conf; " +
			"systemctl reset-failed outcryd@3; systemctl start --no-block outcryd@3; " +
			"outcry cluster replace 3"},
		healed: clusterWell, ended: "systemctl stop looks; systemctl start customers"},
	{alert: "OutcryElections", comes: "systemd-run --quiet --collect --unit=script bash -c 'while :; do " +
		"outcry --http " + httpAddresses + " cluster transfer; done'",
		meanwhile: map[string]string{"the script is stopped": "systemctl stop script"}, healed: clusterWell},
}

const (
	// clusterWell is true once all three nodes are up and one of them may fail.
	clusterWell = "sum(outcry_cluster_follows) == 3 and sum(outcry_cluster_leads) == 1 and " +
		"sum(outcry_cluster_spare_voters) == 1"

	// nodes sets the environment in which outcry commands reach the nodes.
	nodes = "export OUTCRY_ADDR=" + xmlAddresses + " OUTCRY_HTTP_ADDR=" + httpAddresses + "; "

	// aStandby sets the shell variable n to the number of a standby.
	aStandby = `n=1; while [ "$(curl -s http://127.0.0.1:808$n/healthz)" != standby ]; do ` +
		`n=$((n % 3 + 1)); sleep 0.1; done; `
)

// TestRunbooksOfClusters causes each alert of a cluster and performs its runbook.
func TestRunbooksOfClusters(t *testing.T) {
	budget.SkipShort(t, "the runbooks of one station are enough for CI")
	t.Parallel()
	openClusterStation(t).goThrough(t, troublesOfClusters)
}

// TestTheClusterPage performs docs/CLUSTER.md with the package, and with nodes run by outcry cluster try.
func TestTheClusterPage(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install("1.0")
	m.run("mkdir /srv/three")
	sh := m.openShell(patience, "HOME=/root")
	_, _, err := sh.Run("cd /srv/three")
	require.NoError(t, err)
	const http = "127.0.0.1:12402,127.0.0.1:12405,127.0.0.1:12408"
	leader := "outcry --http " + http + ` cluster status 2> /dev/null | awk '$2 == "leader" { print $1 }'`
	page := readPage(t, "docs/CLUSTER.md")
	require.NoError(t, sh.Walk(t.Context(), page, page.Parts, map[string]func() error{
		"all nodes are ready": func() error {
			m.run("until [ $(outcry --http " + http + " cluster status | grep -c ' at 0 ') = 3 ]; do sleep 0.1; done")
			return nil
		},
		"the node that leads is killed": func() error {
			m.run(`pkill -KILL -f "^[^ ]*outcryd --node=$(` + leader + `) "`)
			return nil
		},
	}))
}
