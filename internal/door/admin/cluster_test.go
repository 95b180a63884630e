package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
)

var errStandby = errors.New("standby; the leader is 127.0.0.1:12345")

// standby returns the options of a standby.
func standby(o Options) Options {
	no := func() error { return errStandby }
	o.Ready, o.Started = no, no
	o.Alive = func() (string, error) { return remote.RoleStandby, nil }
	o.Exchange = func() Exchange { panic("it has none") }
	o.Cluster = func(context.Context) remote.Cluster {
		return remote.Cluster{Node: 1, Role: remote.RoleStandby, Leader: 2, Term: 7, Seq: 1234,
			Members: []remote.Member{{Node: 1, Peer: "127.0.0.1:7001"}}}
	}
	return o
}

// TestAStandbyNamesTheLeaderToWhatOnlyThatCanDo: a standby is alive, and its refusals of the leader's work name the
// leader.
func TestAStandbyNamesTheLeaderToWhatOnlyThatCanDo(t *testing.T) {
	s := serve(t, standby(options()))
	for _, test := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, "standby\n"},
		{"GET", "/readyz", 503, errStandby.Error() + "\n"},
		{"POST", "/xml", 503, "<results><error>" + errStandby.Error() + "</error></results>"},
		{"POST", "/admin/halt?sym=SPY", 503, `{"error":"` + errStandby.Error() + `"}` + "\n"},
		{"POST", "/admin/resume?sym=SPY", 503, `{"error":"` + errStandby.Error() + `"}` + "\n"},
		{"POST", "/admin/cancel-all?account=1", 503, `{"error":"` + errStandby.Error() + `"}` + "\n"},
		{"GET", "/api/v1/cluster", 200,
			`{"node":1,"role":"standby","leader":2,"term":7,"seq":1234,"digest_seq":0,"members":` +
				`[{"node":1,"learner":false,"peer":"127.0.0.1:7001","active":false,"lag_entries":0}]}` + "\n"},
	} {
		response, body := do(t, s, test.method, test.path, "")
		require.Equal(t, test.status, response.StatusCode, "%s %s", test.method, test.path)
		require.Equal(t, test.body, body, "%s %s", test.method, test.path)
	}
}

func TestANodeThatStartsStillIsNotAliveToAProbe(t *testing.T) {
	o := standby(options())
	o.Alive = func() (string, error) { return "", errors.New("starting: Postgres is away") }
	response, body := do(t, serve(t, o), "GET", "/healthz", "")
	require.Equal(t, 503, response.StatusCode)
	require.Equal(t, "starting: Postgres is away\n", body)
}

func TestOpenProbesTellTheirStatusAndNothingElseWithoutAToken(t *testing.T) {
	o, add, _ := guarded(t)
	o = standby(o)
	o.ProbesOpen = true
	s := serve(t, o)
	for path, status := range map[string]int{
		"/readyz": 503, "/healthz": 200, "/metrics": 401, "/api/v1/cluster": 401, "/help": 401, "/readyz/": 401,
	} {
		response, body := do(t, s, "GET", path, "")
		require.Equal(t, status, response.StatusCode, path)
		if status != http.StatusUnauthorized {
			require.Empty(t, body, path)
		}
	}
	response, err := s.Client().Post(s.URL+"/readyz", "", nil)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, response.Body)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)

	wrong, _ := do(t, s, "GET", "/readyz", "", bearer("wrong")...)
	require.Equal(t, http.StatusUnauthorized, wrong.StatusCode, "a token that is shown counts")
	token, _ := add("health")
	_, body := do(t, s, "GET", "/readyz", "", bearer(token)...)
	require.Contains(t, body, "the leader is")

	o.ProbesOpen = false
	closed, _ := do(t, serve(t, o), "GET", "/healthz", "")
	require.Equal(t, http.StatusUnauthorized, closed.StatusCode)
}
