package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
	"outcry/internal/testing/certtest"
)

// TestACertificateThatIsNotTheHostsIsRefused tries certificates for another host, expired, not yet valid, for
// clients, and of an unknown authority. The client fails at once with an error that says why, and sends
// nothing, above all no token.
func TestACertificateThatIsNotTheHostsIsRefused(t *testing.T) {
	authority := certtest.NewAuthority(t)
	for want, pair := range map[string]certtest.Pair{
		"doesn't contain any IP SANs": authority.ServerOf("other", "other.example"),
		"certificate has expired":     authority.Expired("old", x509.ExtKeyUsageServerAuth),
		"is not yet valid: current time": authority.Lasting(
			"new", x509.ExtKeyUsageServerAuth, time.Minute, time.Hour),
		"incompatible key usage":                  authority.Client("client"),
		"certificate signed by unknown authority": certtest.NewAuthority(t).Server("stranger"),
	} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
		require.NoError(t, err)
		got := make(chan int, 8)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					close(got)
					return
				}
				n, _ := conn.Read(make([]byte, 1))
				got <- n
				_ = conn.Close()
			}
		}()
		o := client.Options{TLS: &tls.Config{RootCAs: authority.Pool}, Token: "outc_secret", RetryTime: time.Hour}
		_, err = client.Dial(background, l.Addr().String(), o)
		require.ErrorAs(t, err, new(*tls.CertificateVerificationError), want)
		require.ErrorContains(t, err, want)
		require.Zero(t, <-got, "what came through TLS: %s", want)
		_, err = client.DialConn(background, l.Addr().String(), o)
		require.ErrorContains(t, err, want)
		require.Zero(t, <-got)
		require.NoError(t, l.Close())
	}
}

// TestACertificateOfAnotherHostIsRefusedByName: the error has both names.
func TestACertificateOfAnotherHostIsRefusedByName(t *testing.T) {
	authority := certtest.NewAuthority(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{authority.ServerOf("other", "other.example").Certificate}})
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	_, err = client.Dial(background, net.JoinHostPort("localhost", port),
		client.Options{TLS: &tls.Config{RootCAs: authority.Pool}})
	require.ErrorContains(t, err, "certificate is valid for other.example, not localhost")
}
