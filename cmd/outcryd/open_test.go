package main

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
	"outcry/internal/testing/certtest"
)

// TestAServerThatAsksForNothingIsNotOpen: without tokens, certificates or --open, the server refuses to listen beyond
// this machine on either port, and creates nothing.
func TestAServerThatAsksForNothingIsNotOpen(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	own := authority.Server("own")
	with := []string{"--tls-cert=" + own.CertFile, "--tls-key=" + own.KeyFile}
	for _, c := range []struct {
		flags   []string
		refused string // the flag of the port that is refused
	}{
		{[]string{"--listen=:0"}, "listen"},
		{[]string{"--listen=0.0.0.0:0", "--http="}, "listen"},
		{[]string{"--listen=[::]:0", "--http=127.0.0.1:0"}, "listen"},
		{[]string{"--http=:0"}, "http"},
		{append(with, "--http=:0"), "http"}, // encrypted but without authentication
		{[]string{"--listen=:0", "--http=:0", "--open"}, ""},
		{[]string{"--listen=:0", "--http=:0", "--auth"}, ""},
		{append(with, "--listen=:0", "--http=:0", "--tls-client-ca="+authority.File), ""},
		{[]string{"--listen=localhost:0", "--http=127.0.0.2:0"}, ""},
	} {
		flags, _ := dataFlags(t)
		status, _, errs := checked(t, append(flags, c.flags...)...)
		s, _, err := tryInProcess(append(flags, c.flags...)...)
		if c.refused == "" {
			require.Equal(t, exitOK, status, "%s: %s", c.flags, errs)
			require.NoError(t, err, c.flags)
			require.NoError(t, s.stop())
			continue
		}
		require.Equal(t, exitUsage, status, c.flags)
		for _, said := range []string{errs, fmt.Sprint(err)} {
			require.Contains(t, said, "--"+c.refused+" ", c.flags)
			require.Contains(t, said, "is open beyond this machine, and anyone who reaches it can trade for anyone")
			require.Contains(t, said, "or set --open")
		}
	}
}

// TestTheHostIsANameOfTheServer: on an address that is not loopback, as in a container, a web page whose own host name
// was pointed there (DNS rebinding) can neither read nor change anything. If the machine has no such address, only
// loopback is tested here; the tests of admin cover the rest.
func TestTheHostIsANameOfTheServer(t *testing.T) {
	flags, _ := dataFlags(t)
	s, _ := inProcess(t, append(flags, "--http=:0", "--open", "--http-hosts=outcryd, exchange.example")...)
	_, port, err := net.SplitHostPort(s.httpAddr.String())
	require.NoError(t, err)
	for _, ip := range append(otherAddresses(t), net.IPv4(127, 0, 0, 1)) {
		addr := net.JoinHostPort(ip.String(), port)
		for host, want := range map[string]int{"evil.example": 403, "evil.example:" + port: 403, "outcryd:" + port: 200,
			"exchange.example": 200, addr: 200, "localhost": 200, "sub.outcryd": 403} {
			for _, path := range []string{"/healthz", "/debug/pprof/heap", "/admin/status"} {
				r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, nil)
				require.NoError(t, err)
				r.Host = host
				response, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, want, response.StatusCode, "%s of %s at %s", path, host, addr)
			}
		}
	}
	for name, want := range map[string]bool{"": true, "a,b.example": true, "a, b": true, "a,,b": false, "a:80": false,
		"a b": false, "http://a": false, "*": false} {
		status, _, errs := checked(t, append(flags, "--http-hosts="+name)...)
		require.Equal(t, want, status == exitOK, "%q: %s", name, errs)
	}
	require.Equal(t, []string{"a", "exchange.example"},
		(&settings.Config{HTTP: "exchange.example:80", HTTPHosts: "a"}).Hosts())
	require.Empty(t, (&settings.Config{HTTP: ":80"}).Hosts())
}

// otherAddresses returns this machine's addresses that are not loopback, if any.
func otherAddresses(t *testing.T) (all []net.IP) {
	t.Helper()
	found, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			all = append(all, n.IP)
		}
	}
	return all
}
