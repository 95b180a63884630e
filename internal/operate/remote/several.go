package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// NodeView is the answer of one of several nodes.
type NodeView struct {
	Address string  // the address that was asked
	Cluster Cluster // zero after an error
	Err     error
}

// viewWait is how long a node may take to answer, which includes the time to compute a digest. It also bounds how
// long a node that hangs can delay the others' answers.
const viewWait = 5 * time.Second

// roleBytesMax bounds the answer of a probe.
const roleBytesMax = 1 << 10

// Cluster returns the node's view of its cluster.
func (c *Client) Cluster(ctx context.Context) (v Cluster, err error) {
	err = c.request(ctx, http.MethodGet, "api/v1/cluster", nil, nil, &v)
	return v, err
}

// Change requests a change of the cluster. The node must be the leader.
func (c *Client) Change(ctx context.Context, change string, what ClusterChange) (a ClusterChanged, err error) {
	body, err := json.Marshal(what)
	if err != nil {
		return a, err
	}
	err = c.request(ctx, http.MethodPost, "admin/cluster/"+change, nil, body, &a)
	return a, err
}

// Role returns the role of a node that leads or follows, by a request that is cheap for the node. The error
// says that the node does not answer, or is still starting.
func (c *Client) Role(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Address+"/healthz", nil)
	if err != nil {
		return "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return "", withoutURL(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, roleBytesMax))
	if err != nil {
		return "", err
	}
	text := string(bytes.TrimSpace(body))
	if response.StatusCode != http.StatusOK {
		return "", &Error{response.StatusCode, text}
	}
	return text, nil
}

// Views asks all clients at the same time, and returns their answers in the order of the clients.
func Views(ctx context.Context, all []*Client) []NodeView {
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	views := make([]NodeView, len(all))
	var asking sync.WaitGroup
	for i, c := range all {
		asking.Go(func() {
			v, err := c.Cluster(ctx)
			views[i] = NodeView{c.Address, v, err}
		})
	}
	asking.Wait()
	return views
}

// Leader returns the client of the leader, by the views of all clients. If several nodes say that they lead, it
// chooses the one with the newest term. If no address is of a cluster, it returns the first single server that
// answers. The error lists the answers.
func Leader(all []*Client, views []NodeView) (*Client, error) {
	var leader, single *Client
	var term uint64
	var texts []string
	var elsewhere string
	for i, v := range views {
		switch e, answered := v.Err.(*Error); {
		case answered && single == nil && e.Status == http.StatusNotFound:
			single = all[i] // a single server
		case v.Err != nil:
			texts = append(texts, fmt.Sprintf("%s: %v", v.Address, v.Err))
		case v.Cluster.Role == RoleLeader && v.Cluster.Term >= term:
			leader, term = all[i], v.Cluster.Term
		default:
			text := v.Cluster.Why // it usually begins with the role
			if !strings.HasPrefix(text, v.Cluster.Role) {
				text = strings.TrimSpace(v.Cluster.Role + " " + text)
			}
			texts = append(texts, v.Address+": "+text)
			if at := v.Cluster.leaderHTTP(); at != "" {
				elsewhere = "; the leader's address is " + at
			}
		}
	}
	switch {
	case leader != nil:
		return leader, nil
	case single != nil:
		return single, nil
	}
	return nil, fmt.Errorf("no address is the leader's%s: %s", elsewhere, strings.Join(texts, "; "))
}

// leaderHTTP returns the address of the leader's HTTP side, "" if unknown.
func (c *Cluster) leaderHTTP() string {
	for _, m := range c.Members {
		if m.Node == c.Leader && m.Node != 0 {
			return m.HTTP
		}
	}
	return ""
}
