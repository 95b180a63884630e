// Package certtest makes certificate authorities and certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority issues certificates for servers on this machine and for clients. It is used by one test.
type Authority struct {
	File string         // its certificate in PEM
	Pool *x509.CertPool // contains its certificate

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate and its key.
type Pair struct {
	CertFile, KeyFile string // in PEM
	Certificate       tls.Certificate
}

var serials atomic.Int64

// NewAuthority makes an authority. Its files are removed when the test ends.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir(), Pool: x509.NewCertPool()}
	template := &x509.Certificate{SerialNumber: big.NewInt(serials.Add(1)),
		Subject:   pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	var der []byte
	a.key, der = a.sign(template, nil, nil)
	var err error
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.Pool.AddCert(a.cert)
	a.File = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// Server makes a server's certificate for 127.0.0.1 and localhost. It writes the files name.pem and name.key,
// and replaces existing ones.
func (a *Authority) Server(name string) Pair {
	return a.Lasting(name, x509.ExtKeyUsageServerAuth, -time.Hour, time.Hour)
}

// Client makes a client's certificate, with files as for Server.
func (a *Authority) Client(name string) Pair {
	return a.Lasting(name, x509.ExtKeyUsageClientAuth, -time.Hour, time.Hour)
}

// Expired makes an expired certificate, with files as for Server.
func (a *Authority) Expired(name string, usage x509.ExtKeyUsage) Pair {
	return a.Lasting(name, usage, -time.Hour, -time.Minute)
}

// ServerOf makes a server's certificate for another host, with files as for Server.
func (a *Authority) ServerOf(name, host string) Pair {
	return a.make(name, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, -time.Hour, time.Hour, host)
}

// Lasting makes a certificate that is valid from one time until another, both relative to now, with files as
// for Server.
func (a *Authority) Lasting(name string, usage x509.ExtKeyUsage, from, until time.Duration) Pair {
	return a.make(name, []x509.ExtKeyUsage{usage}, from, until, "localhost", net.IPv4(127, 0, 0, 1))
}

// Peer makes a certificate for both sides of a connection, for a host and addresses. It is valid until a time
// relative to now.
func (a *Authority) Peer(name string, until time.Duration, host string, ips ...net.IP) Pair {
	return a.make(name, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, -time.Hour, until,
		host, ips...)
}

// make makes a certificate for a host and addresses.
func (a *Authority) make(name string, usage []x509.ExtKeyUsage, from, until time.Duration, host string,
	ips ...net.IP) Pair {
	a.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usage, DNSNames: []string{host}, IPAddresses: ips}
	key, der := a.sign(template, a.cert, a.key)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	p := Pair{CertFile: a.write(name+".pem", "CERTIFICATE", der), KeyFile: a.write(name+".key", "EC PRIVATE KEY", keyDER)}
	p.Certificate, err = tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	require.NoError(a.t, err)
	return p
}

// sign makes a key and a certificate that parent signs, or that is self-signed if parent is nil.
func (a *Authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	require.NoError(a.t, err)
	return key, der
}

// write replaces a file atomically, as a program that renews certificates should.
func (a *Authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	require.NoError(a.t, os.Rename(path+".new", path))
	return path
}
