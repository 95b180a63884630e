package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/certtest"
)

// certify loads certificates and follows them.
func certify(t testing.TB, own certtest.Pair, clientCA string) *Certificates {
	t.Helper()
	c, err := LoadCertificates(own.CertFile, own.KeyFile, clientCA, quiet)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return c
}

// talk connects to a server with c and returns the error of its handshake or of reading the server's
// greeting.
func talk(t testing.TB, c *Certificates, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
	require.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "hello")
		conn.Close()
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", l.Addr().String(), client)
	if err != nil {
		return err
	}
	defer conn.Close()
	greeting, err := io.ReadAll(conn)
	if err == nil && string(greeting) != "hello" {
		err = errors.New("no greeting")
	}
	return err
}

func TestOnlyClientsOfTheAuthorityGetIn(t *testing.T) {
	authority, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own := authority.Server("server")
	c := certify(t, own, authority.File)
	client := func(p ...certtest.Pair) *tls.Config {
		config := &tls.Config{RootCAs: authority.Pool}
		for _, pair := range p {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &pair.Certificate, nil
			}
		}
		return config
	}
	require.NoError(t, talk(t, c, client(authority.Client("alice"))))
	require.Error(t, talk(t, c, client()), "none")
	require.Error(t, talk(t, c, client(other.Client("mallory"))), "a certificate of another authority")
	require.Error(t, talk(t, c, client(authority.Server("another"))), "a server's certificate is not valid for a client")
	require.Error(t, talk(t, c, client(authority.Expired("old", x509.ExtKeyUsageClientAuth))), "expired")
	old := client(authority.Client("alice"))
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	require.Error(t, talk(t, c, old), "TLS 1.1")
	health, err := OwnConfig(own.CertFile, own.KeyFile)
	require.NoError(t, err)
	require.NoError(t, talk(t, c, health), "the server's own certificate is accepted")
	stranger := other.Server("server")
	health, err = OwnConfig(stranger.CertFile, stranger.KeyFile)
	require.NoError(t, err)
	require.Error(t, talk(t, certify(t, own, ""), health), "it accepts only its own server")
}

func TestNewCertificatesAreTakenAndBadOnesAreNot(t *testing.T) {
	first, second := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own := first.Server("server")
	c := certify(t, own, "")
	trusts := func(a *certtest.Authority) *tls.Config { return &tls.Config{RootCAs: a.Pool} }
	require.NoError(t, talk(t, c, trusts(first)))
	expires := c.Expires()

	key, err := os.ReadFile(own.KeyFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(own.KeyFile, []byte("no key"), 0o600))
	require.ErrorContains(t, c.Reload(), own.KeyFile)
	require.NoError(t, talk(t, c, trusts(first)), "the old certificate stays in use")
	require.NoError(t, os.WriteFile(own.KeyFile, key, 0o600))

	next := second.Server("server")
	require.NoError(t, os.Rename(next.CertFile, own.CertFile))
	require.Error(t, c.Reload(), "a certificate without its key")
	require.NoError(t, talk(t, c, trusts(first)))
	require.NoError(t, os.Rename(next.KeyFile, own.KeyFile))
	require.Eventually(t, func() bool { return talk(t, c, trusts(second)) == nil }, patience, 10*time.Millisecond)
	require.False(t, expires.After(c.Expires()))

	_, err = LoadCertificates(own.CertFile, own.KeyFile, own.KeyFile, quiet)
	require.ErrorContains(t, err, "there is no certificate in")
}

// An exchange starts even if its certificate has expired, because being down would be worse. But an invalid
// certificate does not replace a valid one.
func TestACertificateThatIsNotGoodIsTakenOnlyForWantOfABetterOne(t *testing.T) {
	authority := certtest.NewAuthority(t)
	own := authority.Expired("server", x509.ExtKeyUsageServerAuth)
	c, err := LoadCertificates(own.CertFile, own.KeyFile, "", quiet)
	require.NoError(t, err)
	require.ErrorContains(t, c.Unfit(), own.CertFile+" has expired at ")
	require.NoError(t, c.Reload(), "an expired certificate may replace an expired one")
	insecure := &tls.Config{InsecureSkipVerify: true}
	require.NoError(t, talk(t, c, insecure), "a client that does not verify is let in")

	authority.Lasting("server", x509.ExtKeyUsageServerAuth, time.Hour, 2*time.Hour) // overwrites the files
	require.NoError(t, c.Reload())
	require.ErrorContains(t, c.Unfit(), own.CertFile+" is not valid before ")
	authority.Server("server")
	require.NoError(t, c.Reload())
	require.NoError(t, c.Unfit())
	expires := c.Expires()
	for _, from := range []time.Duration{-time.Hour, time.Hour} {
		authority.Lasting("server", x509.ExtKeyUsageServerAuth, from, from+time.Minute)
		require.Error(t, c.Reload())
		require.Error(t, c.Failed())
		require.Equal(t, expires, c.Expires(), "the valid certificate stays in use")
		require.NoError(t, c.Unfit())
	}
	authority.Server("server")
	require.NoError(t, c.Reload())
	require.NoError(t, c.Failed())
}

func TestCertificatesThatArePreparedAreNotYetShown(t *testing.T) {
	first, second := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own, next := first.Server("server"), second.Server("server")
	c, err := LoadCertificates(own.CertFile, own.KeyFile, "", quiet)
	require.NoError(t, err)
	require.NoError(t, os.Rename(next.CertFile, own.CertFile))
	require.NoError(t, os.Rename(next.KeyFile, own.KeyFile))
	apply, err := c.Prepare()
	require.NoError(t, err)
	require.NoError(t, talk(t, c, &tls.Config{RootCAs: first.Pool}))
	apply()
	require.NoError(t, talk(t, c, &tls.Config{RootCAs: second.Pool}))
}
