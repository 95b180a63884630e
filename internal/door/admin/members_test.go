package admin

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
)

// fakeMembers records the requests that it gets.
type fakeMembers struct {
	asked string
	err   error
}

func (f *fakeMembers) record(what string, node uint64, address string) error {
	f.asked = fmt.Sprint(what, " ", node, " ", address)
	return f.err
}

func (f *fakeMembers) Transfer(_ context.Context, node uint64) error {
	return f.record("transfer", node, "")
}

func (f *fakeMembers) Add(_ context.Context, node uint64, address string) error {
	return f.record("add", node, address)
}

func (f *fakeMembers) Promote(_ context.Context, node uint64) error {
	return f.record("promote", node, "")
}

func (f *fakeMembers) Remove(_ context.Context, node uint64) error {
	return f.record("remove", node, "")
}

func (f *fakeMembers) Replace(_ context.Context, node uint64, address string) error {
	return f.record("replace", node, address)
}

func TestAClusterIsChangedByItsLeader(t *testing.T) {
	o, m := options(), new(fakeMembers)
	o.Members = m
	s := serve(t, o)
	for _, c := range []struct {
		path, body string
		err        error
		status     int
		asked      string
		want       string
	}{
		{"transfer", `{}`, nil, 200, "transfer 0 ", `{"change":"transfer","node":0}`},
		{"transfer", `{"node":2}`, nil, 200, "transfer 2 ", `{"change":"transfer","node":2}`},
		{"add", `{"node":4,"address":"h:1"}`, nil, 200, "add 4 h:1", `{"change":"add","node":4,"address":"h:1"}`},
		{"promote", `{"node":4}`, nil, 200, "promote 4 ", `{"change":"promote","node":4}`},
		{"remove", `{"node":4}`, nil, 200, "remove 4 ", `{"change":"remove","node":4}`},
		{"replace", `{"node":4}`, nil, 200, "replace 4 ", `{"change":"replace","node":4}`},
		{"remove", `{"node":4}`, errors.New("no majority"), 409, "remove 4 ", `{"error":"no majority"}`},
		{"remove", `{"node":4}`, fmt.Errorf("%w: standby", remote.ErrNotLeading), 503, "remove 4 ",
			`{"error":"this node does not lead the cluster: standby"}`},
		{"remove", `{"node":4}`, context.DeadlineExceeded, 503, "remove 4 ",
			`{"error":"it was not durable within 10s, and its outcome is unknown; repeat the request"}`},
		{"remove", `{}`, nil, 400, "", `{"error":"node 0: nodes are numbered from 1"}`},
		{"remove", `{"nodes":4}`, nil, 400, "", `{"error":"the change cannot be read: json: unknown field \"nodes\""}`},
		{"remove", `{"node":4}{}`, nil, 400, "", `{"error":"there is more input after the change"}`},
		{"remove", `{"node":-1}`, nil, 400, "", "the change cannot be read"},
		{"remove", ``, nil, 400, "", `{"error":"the change cannot be read: EOF"}`},
	} {
		m.asked, m.err = "", c.err
		response, body := do(t, s, "POST", "/admin/cluster/"+c.path, c.body)
		require.Equal(t, c.status, response.StatusCode, "%s %s: %s", c.path, c.body, body)
		require.Contains(t, body, c.want)
		require.Equal(t, c.asked, m.asked)
	}
}

func TestAStandbyDoesNotChangeItsCluster(t *testing.T) {
	o, m := standby(options()), new(fakeMembers)
	o.Members = m
	response, body := do(t, serve(t, o), "POST", "/admin/cluster/remove", `{"node":1}`)
	require.Equal(t, 503, response.StatusCode)
	require.Contains(t, body, errStandby.Error())
	require.Empty(t, m.asked)
}
