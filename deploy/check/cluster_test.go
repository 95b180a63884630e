//go:build operations

package check

import "testing"

// troublesOfClusters are of a station with three nodes, which goes through them in this order.
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
	{
		alert: "OutcryElections",
		comes: "systemd-run --quiet --collect --unit=script bash -c 'while :; do outcry --http " +
			httpAddresses + " cluster transfer; done'",
		meanwhile: map[string]string{"the script is stopped": "systemctl stop script"},
		healed:    clusterWell,
	},
}

const (
	// clusterWell holds once all three nodes are there, and one may fail.
	clusterWell = "sum(outcry_cluster_follows) == 3 and sum(outcry_cluster_leads) == 1 and " +
		"sum(outcry_cluster_spare_voters) == 1"

	// aStandby finds one.
	aStandby = `n=1; while [ "$(curl -s http://127.0.0.1:808$n/healthz)" != standby ]; ` +
		`do n=$((n % 3 + 1)); sleep 0.1; done; `
)

// TestRunbooksOfClusters breaks a cluster until each of its alerts fires, and does its runbook.
func TestRunbooksOfClusters(t *testing.T) {
	t.Parallel()
	openClusterStation(t).goThrough(t, troublesOfClusters)
}
