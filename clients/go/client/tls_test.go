package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
)

// TestTLSIsSpokenAndTheCertificateLookedAt: the client connects through a TLS proxy, and sends nothing to one
// with an unknown certificate.
func TestTLSIsSpokenAndTheCertificateLookedAt(t *testing.T) {
	certificates := httptest.NewTLSServer(nil) // its certificate is for 127.0.0.1
	defer certificates.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates.TLS.Certificates})
	require.NoError(t, err)
	p := serveProxy(t, l, exchangeAddr, func(int) (up, down int) { return -1, -1 }, func() {})
	known := x509.NewCertPool()
	known.AddCert(certificates.Certificate())

	c := dial(t, p.addr, client.Options{TLS: &tls.Config{RootCAs: known}})
	market(t, c)
	_, err = c.Sell(background, "2", "SPY", number("1"), number("1"))
	require.NoError(t, err)

	_, err = client.Dial(background, p.addr, client.Options{TLS: &tls.Config{}})
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
	_, err = client.Dial(background, p.addr,
		client.Options{TLS: &tls.Config{RootCAs: known, ServerName: "elsewhere.invalid"}})
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
	_, err = client.Dial(background, exchangeAddr, client.Options{TLS: &tls.Config{RootCAs: known}})
	require.ErrorAs(t, err, new(tls.RecordHeaderError), "the exchange speaks none")
	plain := dial(t, p.addr, client.Options{RetryTime: -1})
	_, err = plain.Query(background, "1", 1)
	require.ErrorAs(t, err, new(*client.Broken), "a plain client of a TLS port that says nothing")
	require.False(t, client.MaybeDone(err))
}
