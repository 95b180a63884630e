package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ErrPeer is wrapped by the error of a handshake in which the other side's certificate was refused.
var ErrPeer = errors.New("auth: the peer's certificate")

// PeerConfig returns the TLS configuration for connections between equal servers: TLS 1.3 or later. Each side
// presents the same certificate for incoming and outgoing connections, and needs one of an authority in
// clientCAFile, with which c must have been loaded. Each handshake uses the certificates in use at its time.
// dials is true for the connections that this side makes. No host name is checked: the caller must check whom
// the other side's certificate names.
func (c *Certificates) PeerConfig(dials bool) *tls.Config {
	usage := x509.ExtKeyUsageClientAuth
	if dials {
		usage = x509.ExtKeyUsageServerAuth
	}
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		SessionTicketsDisabled:      true, // so that each connection presents its certificate
		DynamicRecordSizingDisabled: true, // few connections with large messages need no small records
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current.Load().own, nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.current.Load().own, nil
		},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection checks it, since the authorities may change
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("auth: the peer presents no certificate")
			}
			if err := verifyChain(s.PeerCertificates, c.current.Load().clients, usage); err != nil {
				return fmt.Errorf("%w: %w", ErrPeer, err)
			}
			return nil
		},
	}
}

// verifyChain returns an error unless the first certificate is valid now and for this usage, and one of the
// authorities has issued it, directly or through the other certificates.
func verifyChain(shown []*x509.Certificate, authorities *x509.CertPool, usage x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, cert := range shown[1:] {
		between.AddCert(cert)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}
