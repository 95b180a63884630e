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

// NodeView is what a node of several said of itself.
type NodeView struct {
	Address string  // that was asked
	Cluster Cluster // zero with an error
	Err     error
}

// viewWait is how long a node may take to tell its view: it works out a digest meanwhile. One
// that hangs must not keep from the others.
const viewWait = 5 * time.Second

// roleBytesMax bounds the answer of a probe.
const roleBytesMax = 1 << 10

// Cluster returns how the node sees its cluster.
func (c *Client) Cluster(ctx context.Context) (v Cluster, err error) {
	err = c.request(ctx, http.MethodGet, "api/v1/cluster", nil, nil, &v)
	return v, err
}

// Change asks the leader for a change of the cluster.
func (c *Client) Change(ctx context.Context, change string, what ClusterChange) (a ClusterChanged, err error) {
	body, err := json.Marshal(what)
	if err != nil {
		return a, err
	}
	err = c.request(ctx, http.MethodPost, "admin/cluster/"+change, nil, body, &a)
	return a, err
}

// Role returns the role of a node that leads or follows, with an answer that costs nothing.
// The error says that it does not answer, or starts still.
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

// Views asks all clients at the same time, and returns what they said, in their order.
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

// Leader returns the client of the node that leads, of those whose views these are, in the
// newest term. If no address is of a cluster, it is the first that answers. The error says
// what each said instead.
func Leader(all []*Client, views []NodeView) (*Client, error) {
	var leader, single *Client
	var term uint64
	var texts []string
	var elsewhere string
	for i, v := range views {
		switch e, answered := v.Err.(*Error); {
		case answered && single == nil && e.Status == http.StatusNotFound:
			single = all[i] // a server alone
		case v.Err != nil:
			texts = append(texts, fmt.Sprintf("%s: %v", v.Address, v.Err))
		case v.Cluster.Role == RoleLeader && v.Cluster.Term >= term:
			leader, term = all[i], v.Cluster.Term
		default:
			text := v.Cluster.Why // which mostly begins with the role
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

// leaderHTTP returns where the leader says that its HTTP side is, "" if that is not known.
func (c *Cluster) leaderHTTP() string {
	for _, m := range c.Members {
		if m.Node == c.Leader && m.Node != 0 {
			return m.HTTP
		}
	}
	return ""
}
