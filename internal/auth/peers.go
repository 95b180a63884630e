package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ErrPeer is what the error of a handshake wraps if the other side's certificate is refused.
var ErrPeer = errors.New("auth: the peer's certificate")

// PeerConfig returns how one of several equal servers speaks TLS with the others, from
// version 1.3 on: the same certificate is shown to those who connect and to those it
// connects to, and each side needs one of the authorities in clientCAFile, with which c
// must have been loaded. Files are read as Config has it. dials is for the connections that
// this side makes. The caller finds out whom the other side's certificate names: no host
// name is checked.
func (c *Certificates) PeerConfig(dials bool) *tls.Config {
	usage := x509.ExtKeyUsageClientAuth
	if dials {
		usage = x509.ExtKeyUsageServerAuth
	}
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		SessionTicketsDisabled:      true, // each connection shows its certificate
		DynamicRecordSizingDisabled: true, // large messages, few connections
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current.Load().own, nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.current.Load().own, nil
		},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection does it: the authorities may change
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("auth: the peer shows no certificate")
			}
			if err := verifyChain(s.PeerCertificates, c.current.Load().clients, usage); err != nil {
				return fmt.Errorf("%w: %w", ErrPeer, err)
			}
			return nil
		},
	}
}

// verifyChain returns an error unless one of the authorities vouches, now and for this
// usage, for the first certificate, perhaps by way of the others.
func verifyChain(shown []*x509.Certificate, authorities *x509.CertPool, usage x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, cert := range shown[1:] {
		between.AddCert(cert)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}
