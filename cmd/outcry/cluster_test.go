package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/remote"
)

// fakeNode is an HTTP server that replies like a node of a cluster.
type fakeNode struct {
	addr string

	mu      sync.Mutex // guards the fields below
	view    remote.Cluster
	asked   []string // changes and operations requested so far
	learned int      // number of further promotions to refuse
	closed  bool     // requests without a token are refused
}

func fakeNodes(t *testing.T, n int) (all []*fakeNode, https string) {
	t.Helper()
	for i := range n {
		f := &fakeNode{view: remote.Cluster{Node: uint64(i + 1), Role: remote.RoleStandby, Cluster: "c1", Leader: 1,
			Term: 7, Seq: 10, Digest: "0123456789abcdef", DigestSeq: 10}}
		s := httptest.NewServer(f)
		t.Cleanup(s.Close)
		f.addr = s.Listener.Addr().String()
		all = append(all, f)
		https += "," + f.addr
	}
	all[0].view.Role = remote.RoleLeader
	for _, f := range all {
		for i, other := range all {
			f.view.Members = append(f.view.Members, remote.Member{Node: uint64(i + 1), Peer: "p", HTTP: other.addr,
				LagEntries: uint64(i), Active: true})
		}
	}
	return all, https[1:]
}

// ServeHTTP implements http.Handler.
func (f *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change, is := strings.CutPrefix(r.URL.Path, "/admin/cluster/")
	switch {
	case f.closed:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case r.URL.Path == "/api/v1/cluster":
		_ = json.NewEncoder(w).Encode(f.view)
		return
	case f.view.Role != remote.RoleLeader:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"standby"}`)
		return
	case !is:
		f.asked = append(f.asked, r.URL.Path)
		_, _ = io.WriteString(w, `{"sym":"SPY","changed":true,"halted":{"time":1,"reason":""}}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	f.asked = append(f.asked, change+" "+string(body))
	if change == remote.ChangePromote && f.learned > 0 {
		f.learned--
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":"it has not nearly all"}`)
		return
	}
	if change == remote.ChangeTransfer {
		f.view.Role, f.view.Leader, f.view.Term = remote.RoleStandby, 2, 8
	}
	_, _ = fmt.Fprintf(w, `{"change":%q,"node":4}`, change)
}

func (f *fakeNode) did() (asked []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, f.asked = f.asked, nil
	return asked
}

func TestTheNodesOfAClusterAreShown(t *testing.T) {
	all, https := fakeNodes(t, 3)
	got, said, status := outcry("", "cluster", "status", "--http", https)
	require.Equal(t, cli.ExitOK, status, said)
	require.Equal(t, []string{"node", "role", "term", "record", "lag", "digest", "HTTP"},
		strings.Fields(strings.SplitN(got, "\n", 2)[0]))
	require.Regexp(t, `(?m)^1 +leader +7 +10 +0123456789ab at 10 +127`, got)
	require.Regexp(t, `(?m)^3 +standby +7 +10 +2 entries +0123456789ab at 10 +127`, got)

	got, _, status = outcry("", "cluster", "status", "--http", all[0].addr)
	require.Equal(t, cli.ExitOK, status)
	require.Regexp(t, `(?m)^3 +\? .*`+all[2].addr+` +not asked`, got, "the node that was asked names the others")

	all[1].view.Digest, all[2].view.Role, all[2].view.Cluster = "f", remote.RoleLeader, "c2"
	got, _, status = outcry("", "cluster", "status", "--http", https)
	require.Equal(t, cli.ExitError, status)
	for _, text := range []string{"nodes 1 and 2 have different digests at record 10", "nodes 1 and 3 both lead in term 7",
		"nodes 2 and 3 belong to different clusters"} {
		require.Contains(t, got, "WRONG: "+text+"\n")
	}
	all[0].view.Role, all[2].view.Role = remote.RoleStandby, remote.RoleStarting
	all[2].view.Why = "Postgres is away"
	got, _, status = outcry("", "cluster", "status", "--http", https+",127.0.0.1:1")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, got, "NO LEADER among the nodes that were asked\n")
	require.Regexp(t, `(?m)^3 +starting .*Postgres is away`, got)
	require.Regexp(t, `(?m)^\? .*127.0.0.1:1 .*connection refused`, got)

	got, _, status = outcry("", "cluster", "status", "--json", "--http", https)
	require.Equal(t, cli.ExitError, status)
	var a clusterAnswer
	require.NoError(t, json.Unmarshal([]byte(got), &a))
	require.Zero(t, a.Leader)
	require.Len(t, a.Nodes, 3)
	require.NotEmpty(t, a.Different)
}

// TestWhoWasNotAskedIsNoLeaderLost: nodes that only refuse a request without a token are not reported as a
// lost leader.
func TestWhoWasNotAskedIsNoLeaderLost(t *testing.T) {
	all, https := fakeNodes(t, 3)
	for _, f := range all {
		f.closed = true
	}
	got, _, status := outcry("", "cluster", "status", "--http", https)
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, got, "NO NODE could be asked: give a token, with --token-file or OUTCRY_TOKEN\n")
	require.NotContains(t, got, "NO LEADER")
	got, _, _ = outcry("", "cluster", "status", "--http", "127.0.0.1:1,127.0.0.1:2")
	require.Contains(t, got, "NO NODE could be asked\n")
}

// TestWhatTheLeaderKnowsOfANodeIsShown: a node's row shows the leader's information about the node: that it is a
// learner, or that it does not answer.
func TestWhatTheLeaderKnowsOfANodeIsShown(t *testing.T) {
	all, https := fakeNodes(t, 3)
	members := all[0].view.Members
	members[2].Learner = true
	got, _, status := outcry("", "cluster", "status", "--http", all[0].addr)
	require.Equal(t, cli.ExitOK, status)
	require.Regexp(t, `(?m)^3 +learner .*not asked`, got)
	members[2].Active = false
	got, _, status = outcry("", "cluster", "status", "--http", https)
	require.Equal(t, cli.ExitOK, status, "it has no vote")
	require.Regexp(t, `(?m)^2 +standby`, got)
	require.Regexp(t, `(?m)^3 +silent `, got)
	members[1].Active = false
	got, _, status = outcry("", "cluster", "status", "--http", https)
	require.Equal(t, cli.ExitError, status)
	require.Regexp(t, `(?m)^1 +leader`, got)
	require.Regexp(t, `(?m)^2 +silent `, got)
}

func TestWhatIsOfNoClusterIsSaid(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, said, status := outcry("", "cluster", "status", "--http", s.Listener.Addr().String())
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, said, "is not a node of a cluster")
}

// TestOperationsGoToTheLeader: an operation goes to the leader among several addresses; if the leader is none
// of them, the error names its address.
func TestOperationsGoToTheLeader(t *testing.T) {
	all, https := fakeNodes(t, 3)
	all[0].view.Role, all[2].view.Role = remote.RoleStandby, remote.RoleLeader
	_, said, status := outcry("", "halt", "SPY", "--http", "127.0.0.1:1,"+https)
	require.Equal(t, cli.ExitOK, status, said)
	require.Equal(t, []string{"/admin/halt"}, all[2].did())
	all[0].view.Leader, all[1].view.Leader = 3, 3
	_, said, status = outcry("", "halt", "SPY", "--http", all[0].addr+","+all[1].addr)
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, said, "no address is the leader's; the leader's address is "+all[2].addr+": ")
	all[0].view.Why, all[1].view.Role, all[1].view.Why = "standby; wait", remote.RoleStarting, "starting"
	_, said, _ = outcry("", "halt", "SPY", "--http", all[0].addr+","+all[1].addr)
	require.Contains(t, said, all[0].addr+": standby; wait; "+all[1].addr+": starting\n")
	got, _, status := outcry("", "halt", "SPY", "--http", all[0].addr)
	require.Equal(t, cli.ExitError, status)
	require.Equal(t, "error: standby\n", got)
}

func TestAClusterIsChanged(t *testing.T) {
	all, https := fakeNodes(t, 3)
	all[0].learned = 2
	got, said, status := outcry("", "cluster", "add", "4", "10.0.0.4:7000", "--http", https)
	require.Equal(t, cli.ExitOK, status, said)
	require.Equal(t, "node 4 is a learner; waiting until it has nearly all records\nwaiting: it has not nearly all\n"+
		"node 4 votes\n", got)
	promote := `promote {"node":4}`
	require.Equal(t, []string{`add {"node":4,"address":"10.0.0.4:7000"}`, promote, promote, promote}, all[0].did())

	all[0].view.Members = append(all[0].view.Members, remote.Member{Node: 4, Learner: true})
	_, _, status = outcry("", "cluster", "add", "4", "10.0.0.4:7000", "--http", https)
	require.Equal(t, cli.ExitOK, status)
	require.Equal(t, []string{promote}, all[0].did(), "it learns already")

	_, _, status = outcry("", "cluster", "replace", "4", "--http", https)
	require.Equal(t, cli.ExitOK, status)
	require.Equal(t, []string{`replace {"node":4}`, promote}, all[0].did())
	got, _, _ = outcry("", "cluster", "remove", "4", "--http", https)
	require.Equal(t, "node 4 is removed\n", got)
	require.Equal(t, []string{`remove {"node":4}`}, all[0].did())

	got, said, status = outcry("", "cluster", "transfer", "1", "--http", https)
	require.Equal(t, "node 1 leads already\n", got, said)
	require.Equal(t, cli.ExitOK, status)
	require.Empty(t, all[0].did())
	got, said, status = outcry("", "cluster", "transfer", "--http", https)
	require.Equal(t, cli.ExitOK, status, said)
	require.Equal(t, "node 2 leads now, in term 8\n", got)
	_, said, status = outcry("", "cluster", "transfer", "x", "--http", all[1].addr)
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, said, `"x" is not a node number`)
}

// TestANodeThatNeverComesIsNotWaitedForForEver: the wait for a silent node ends, and the wait for a node that
// answers does not.
func TestANodeThatNeverComesIsNotWaitedForForEver(t *testing.T) {
	defer func(was time.Duration) { silentMax = was }(silentMax)
	silentMax = 0
	all, https := fakeNodes(t, 3)
	all[0].learned = 1
	_, said, status := outcry("", "cluster", "add", "4", "10.0.0.4:7000", "--http", https)
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, said, "node 4 has not answered for 0s: check that it runs, with --join and an empty directory")
	require.Contains(t, said, "it has not nearly all")
	all[0].view.Members = append(all[0].view.Members, remote.Member{Node: 4, Learner: true, Active: true})
	all[0].learned = 2
	got, _, status := outcry("", "cluster", "add", "4", "10.0.0.4:7000", "--http", https)
	require.Equal(t, cli.ExitOK, status)
	require.Contains(t, got, "node 4 votes\n")
}

// TestANodeThatIsNoMemberIsShownAsOutside: a node that is no longer a member is shown as outside, whatever role it
// reports.
func TestANodeThatIsNoMemberIsShownAsOutside(t *testing.T) {
	all, https := fakeNodes(t, 3)
	all[0].view.Members[2].Outside = true
	got, _, status := outcry("", "cluster", "status", "--http", https)
	require.Equal(t, cli.ExitOK, status)
	require.Regexp(t, `(?m)^3 +outside +7 +10 +0123456789ab at 10 +127`, got)
	require.Regexp(t, `(?m)^2 +standby `, got)
}

func TestAddressesOfAListAreChecked(t *testing.T) {
	list, err := cli.Addresses("a, b:1,[::1]", "12345")
	require.NoError(t, err)
	require.Equal(t, "a:12345,b:1,[::1]:12345", list)
	_, err = cli.Addresses("a,b:x", "12345")
	require.ErrorContains(t, err, "address 2 of 2: ")
	list, err = cli.Addresses("a,https://b/x", "8080")
	require.NoError(t, err)
	require.Equal(t, "a:8080,https://b/x", list)
}
