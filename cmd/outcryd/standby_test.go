package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
)

// TestAStandbyServesReadersAndNamesTheLeader: a standby answers reads, and says up to which record. It refuses what
// only a leader can do, and gives the leader's address.
func TestAStandbyServesReadersAndNamesTheLeader(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	reply := dial(t, leader.xml).must(t, `<transactions id="1"><order sym="SPY" amount="-5" limit="10"/></transactions>`)
	require.Contains(t, reply, `id="1"`)
	seq := oneDigest(t, nodes)
	standby := others(nodes, leader)[0]
	named := "standby; the leader is " + leader.xml + ", HTTP " + leader.http

	for path, want := range map[string]string{
		"/api/v1/book/SPY":   fmt.Sprintf(`{"seq":%d,"sym":"SPY","bids":[],"asks":[["10","5"]]}`, seq),
		"/api/v1/orders/1":   `"open":"5"`,
		"/api/v1/trades/SPY": fmt.Sprintf(`{"sym":"SPY","seq":%d,"trades":[]}`, seq),
		"/healthz":           "standby\n",
		"/admin/status":      fmt.Sprintf(`"why":"%s"`, named),
	} {
		status, body := standby.get(fmt.Sprintf("%s?min_seq=%d", path, seq))
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		require.Contains(t, body, want, path)
	}
	status, body := standby.get(fmt.Sprintf("/api/v1/book/SPY?min_seq=%d", seq+1))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, fmt.Sprintf("record %d has not arrived", seq+1))
	status, body = standby.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, named+"\n", body)

	for _, path := range []string{"/xml", "/admin/halt?sym=SPY", "/admin/resume?sym=SPY", "/admin/cancel-all?account=1"} {
		r, err := http.Post("http://"+standby.http+path, "text/xml", strings.NewReader(`<create/>`))
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode, path)
	}
	s := openStream(t, standby.http, "sym=SPY")
	for {
		name, data := s.next()
		if name == "health" {
			require.Contains(t, data, named, "the page shows it")
			break
		}
	}
	require.EqualValues(t, 0, metric(t, standby.program, "outcry_cluster_leads"))
	require.EqualValues(t, 1, metric(t, standby.program, "outcry_cluster_follows"))
	require.EqualValues(t, leader.number, metric(t, standby.program, "outcry_cluster_leader"))
	require.EqualValues(t, 0, metric(t, standby.program, "outcry_ready"))
	require.EqualValues(t, 1, metric(t, standby.program, "outcry_open_orders"))
	require.EqualValues(t, 1, metric(t, leader.program, "outcry_cluster_leads"))

	for n, role := range map[*node]string{leader: remote.RoleLeader, standby: remote.RoleStandby} {
		var out, errs strings.Builder
		args := append([]string{"--health", "--http=" + n.http}, n.flags[:2]...)
		require.Equal(t, exitOK, run(background, args, &out, &errs), errs.String())
		require.Equal(t, role+"\n", out.String())
	}
}
