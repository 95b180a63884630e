package remote

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A token is sent to this machine, or over TLS; otherwise no connection is made.
func TestATokenIsShownToThisMachineOrEncrypted(t *testing.T) {
	shown := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		shown++
		_, _ = w.Write([]byte(`{"version":"v"}`))
	}))
	defer s.Close()
	c := NewClient(s.URL, time.Minute, nil)
	c.Token = "secret"
	status, err := c.Status(context.Background())
	require.NoError(t, err)
	require.Equal(t, "v", status.Version)
	require.Equal(t, 1, shown)

	for _, secure := range []*tls.Config{nil, {}} {
		c = NewClient("http://192.0.2.1:1", time.Minute, secure)
		c.Token = "secret"
		_, err = c.Halt(context.Background(), "A", "")
		require.EqualError(t, err,
			"http://192.0.2.1:1: the token was not sent: the connection to another machine is not encrypted")
	}
	c.InsecureToken = true
	require.NoError(t, c.permit("tcp4", "192.0.2.1:1", nil))
	c.Token, c.InsecureToken = "", false
	require.NoError(t, c.permit("tcp4", "192.0.2.1:1", nil), "there is no token to protect")
}

func TestWhatStaysOnThisMachine(t *testing.T) {
	for address, stays := range map[string]bool{
		"127.0.0.1:1": true, "127.1.2.3:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, // dialing these connects to this machine
		"192.0.2.1:1": false, "[2001:db8::1]:1": false, "[::ffff:192.0.2.1]:1": false, "localhost:1": false,
		"": false, "127.0.0.1": false,
	} {
		require.Equal(t, stays, OnThisMachine(address), address)
	}
}

// An address that names no host, as in many containers, means this machine: the token is sent there.
func TestAnAddressWithoutAMachineIsThisOne(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	s := &httptest.Server{Listener: l,
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"version":"v"}`))
		})}}
	s.Start()
	defer s.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for _, host := range []string{"", "0.0.0.0"} {
		c := NewClient(net.JoinHostPort(host, port), time.Minute, nil)
		c.Token = "secret"
		_, err := c.Status(context.Background())
		require.NoError(t, err, "%q", host)
	}
}

// A redirect is not followed, because the token would be sent along.
func TestNobodyIsSentElsewhere(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
	defer s.Close()
	_, err := NewClient(s.URL, time.Minute, nil).Status(context.Background())
	require.ErrorContains(t, err, "Temporary Redirect")
}

// The error for an exchange that gives no answer differs from that for one that cannot be reached.
func TestAnExchangeThatDoesNotAnswerMayHaveDoneIt(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		conn.Close()
	}))
	c := NewClient(s.URL, time.Minute, nil)
	_, err := c.CancelAll(context.Background(), "1", "")
	require.ErrorContains(t, err, "no answer from "+s.URL+": whether it was done is unknown; it is safe to retry: ")
	_, err = c.Status(context.Background())
	require.ErrorContains(t, err, "no answer from "+s.URL+": ")
	require.NotContains(t, err.Error(), "done")
	s.Close()
	_, err = c.CancelAll(context.Background(), "1", "")
	require.ErrorContains(t, err, "is the exchange running, with an HTTP side at "+s.URL+"?")
	require.NotContains(t, err.Error(), "done")
}
