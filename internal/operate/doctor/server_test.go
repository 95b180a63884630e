package doctor

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// No unencrypted connection to another machine is made.
func TestATokenIsNotShownToAnotherMachine(t *testing.T) {
	e := examination{Options: Options{HTTP: "192.0.2.1:1", Token: "secret"}}
	_, _, err := e.get(context.Background(), "/readyz")
	require.ErrorContains(t, err, "the token is not sent to 192.0.2.1:1 without TLS: give --tls-ca")
	require.NotContains(t, err.Error(), "secret")
	require.NoError(t, e.permit("tcp4", "127.0.0.1:1", nil))
	require.NoError(t, e.permit("tcp6", "[::1]:1", nil))
	e.TLS = &tls.Config{}
	require.NoError(t, e.permit("tcp4", "192.0.2.1:1", nil))
	e.TLS, e.Token = nil, ""
	require.NoError(t, e.permit("tcp4", "192.0.2.1:1", nil))
}

// The check queries each node of a cluster; a standby is not ready, but that is not reported as a problem.
func TestEveryNodeOfAClusterIsAsked(t *testing.T) {
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "standby; the leader is elsewhere", http.StatusServiceUnavailable)
	}))
	defer standby.Close()
	here := standby.Listener.Addr().String()
	o := Options{HTTP: "127.0.0.1:1," + here}
	all := examined(t, healthy(), o)
	requireFound(t, all["server "+here], OK, "/readyz says 503: standby", "")
	requireFound(t, all["server 127.0.0.1:1"], Bad, "refused", "start outcryd")
}
