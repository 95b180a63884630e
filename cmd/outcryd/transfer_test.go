package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/operate/remote"
)

// TestATransferAnswersWhatWasSent: a client without refs sends orders while the leadership is handed over. Each
// order that was placed is answered.
func TestATransferAnswersWhatWasSent(t *testing.T) {
	raced(t)
	t.Parallel()
	nodes, old := startCluster(t)
	setUp(t, old)
	c := dial(t, old.xml)
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		frame := wire.AppendFrame(
			nil,
			[]byte(`<transactions id="1"><order sym="SPY" amount="-1" limit="1000"/></transactions>`),
		)
		for {
			if _, err := c.Write(frame); err != nil {
				return // the leader has closed the connection
			}
		}
	}()
	opened, last := 0, ""
	transferred := make(chan error, 1)
	for {
		reply, err := c.r.Next()
		if err != nil {
			break
		}
		if last = string(reply); strings.Contains(last, "<opened ") {
			opened++
		}
		if opened == 200 {
			go func() { transferred <- handOver(old) }()
		}
	}
	require.NoError(t, <-transferred)
	<-sending
	require.Contains(t, last, "the exchange is stopping")
	next := leaderOf(t, others(nodes, old)...)
	at := dial(t, next.xml)
	require.Contains(
		t,
		at.must(t, fmt.Sprintf(`<transactions id="1"><query id="%d"/></transactions>`, opened)),
		"<open ",
	)
	require.Contains(t, at.must(t, fmt.Sprintf(`<transactions id="1"><query id="%d"/></transactions>`, opened+1)),
		"<error ", "an order was placed and not answered")
	old.becomes(t, remote.RoleStandby)
	for _, n := range nodes {
		n.stop(t)
	}
}

// TestTheLeadershipGoesToOneThatCanLead: a leader does not disconnect clients to hand over to a node that reports
// that it cannot lead.
func TestTheLeadershipGoesToOneThatCanLead(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	c := dial(t, leader.xml)
	starting, able := others(nodes, leader)[0], others(nodes, leader)[1]
	starting.kill()
	starting.launch(t, "--database-url=postgres://nobody@127.0.0.1:9/away")
	client := remote.NewClient(leader.http, 10*time.Second, nil)
	require.Eventually(t, func() bool {
		to := remote.ClusterChange{Node: uint64(starting.number)}
		_, err := client.Change(t.Context(), remote.ChangeTransfer, to)
		return err != nil && strings.Contains(err.Error(), fmt.Sprintf("node %d cannot lead now: it is starting", to.Node))
	}, patience, lookEvery)
	require.Contains(t, c.must(t, `<transactions id="1"><order sym="SPY" amount="-1" limit="1000"/></transactions>`),
		"<opened ", "it goes on, on the same connection")
	require.NoError(t, handOver(leader))
	require.Equal(t, able, leaderOf(t, able))
	for _, n := range nodes {
		n.kill()
	}
}

// handOver asks a leader to hand over to another node. The reply may be lost because the leader's process restarts.
func handOver(n *node) error {
	r, err := http.NewRequestWithContext(
		context.Background(),
		http.MethodPost,
		"http://"+n.http+"/admin/cluster/transfer",
		strings.NewReader(`{"node":0}`),
	)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if reply, err := http.DefaultClient.Do(r); err == nil {
		defer reply.Body.Close()
		if reply.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("the answer is %s", reply.Status)
		}
	}
	return nil
}
