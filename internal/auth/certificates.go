package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Certificates holds a server's own certificate and the authorities of its clients, and follows their files.
// Its methods may be called from any goroutine.
type Certificates struct {
	certFile, keyFile, clientCAFile string
	log                             *slog.Logger
	seen                            []stamp // state of the files when they were first read
	reading                         readings
	current                         atomic.Pointer[certificates]
}

// certificates is the content of the files at one time.
type certificates struct {
	file    string // path of own
	own     tls.Certificate
	clients *x509.CertPool // nil if clients need no certificate
}

// LoadCertificates reads a certificate and its key. If clientCAFile is not "", it also reads the authorities of
// clients, and each client then needs a certificate from one of these. Run follows the files. A certificate that has
// expired or is not yet valid is accepted, as there is no better one; Unfit reports it. The error names the faulty
// file.
func LoadCertificates(certFile, keyFile, clientCAFile string, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{certFile: certFile, keyFile: keyFile, clientCAFile: clientCAFile, log: log}
	c.seen = stampsOf(c.files())
	first, err := c.read()
	if err != nil {
		return nil, err
	}
	c.current.Store(first)
	return c, nil
}

func (c *Certificates) files() []string {
	if c.clientCAFile == "" {
		return []string{c.certFile, c.keyFile}
	}
	return []string{c.certFile, c.keyFile, c.clientCAFile}
}

// Run reloads the files when they change, until ctx ends. Errors in changed files are logged, and the
// previous content stays in use. Open connections are not affected.
func (c *Certificates) Run(ctx context.Context) {
	follow(ctx, c.files(), c.seen, c.Reload, c.Failed, func() {}, c.log)
}

// Prepare reads the files and returns a function that puts them into use for new connections. A certificate
// that has expired or is not yet valid does not replace a valid one, but may replace another invalid one.
// After an error, or if apply is not called, nothing has changed.
func (c *Certificates) Prepare() (apply func(), err error) {
	return c.reading.prepare(func() (func(), error) {
		next, err := c.read()
		if err == nil && unfit(c.current.Load()) == nil {
			err = unfit(next)
		}
		if err != nil {
			return nil, err
		}
		return func() {
			c.current.Store(next)
			c.log.Info("certificates are reloaded", "certificate", c.certFile, "expires",
				next.own.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}, nil
	})
}

// Reload reads the files and puts them into use, under the rules of Prepare. After an error nothing has
// changed.
func (c *Certificates) Reload() error {
	apply, err := c.Prepare()
	if err == nil {
		apply()
	}
	return err
}

// Failed returns the error of the last reading of the files, nil if it succeeded.
func (c *Certificates) Failed() error { return c.reading.failed() }

// Unfit returns why clients are likely to refuse the server's certificate: it has expired, or is not yet
// valid. It returns nil if the certificate is valid.
func (c *Certificates) Unfit() error { return unfit(c.current.Load()) }

func unfit(c *certificates) error {
	leaf := c.own.Leaf
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("auth: certificate %s has expired at %s", c.file, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("auth: certificate %s is not valid before %s", c.file, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// read reads the files.
func (c *Certificates) read() (*certificates, error) {
	next := &certificates{file: c.certFile}
	var err error
	if next.own, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err != nil {
		return nil, fmt.Errorf("auth: certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	if c.clientCAFile != "" {
		if next.clients, err = LoadAuthorities(c.clientCAFile); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// LoadAuthorities reads a PEM file of certificates of authorities. The error names the file.
func LoadAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("auth: there is no certificate in %s", file)
	}
	return pool, nil
}

// Expires returns when the server's certificate expires.
func (c *Certificates) Expires() time.Time { return c.current.Load().own.Leaf.NotAfter }

// Config returns the TLS configuration of a listener: TLS 1.2 or later, and one of the given application
// protocols. Each handshake uses the certificates that are in use at its time.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current.Load().own, nil
		},
	}
	if c.clientCAFile != "" {
		// tls.RequireAndVerifyClientCert cannot be used: the authorities may change, and the server's own program must be
		// admitted. VerifyConnection is also called when a session is resumed.
		config.ClientAuth = tls.RequireAnyClientCert
		config.VerifyConnection = c.verifyClient
	}
	return config
}

// verifyClient refuses a client unless its certificate is from one of the authorities or is the server's own
// certificate. `outcryd --health` presents the latter.
func (c *Certificates) verifyClient(s tls.ConnectionState) error {
	now := c.current.Load()
	if len(s.PeerCertificates) == 0 {
		return errors.New("auth: the client presents no certificate")
	}
	leaf := s.PeerCertificates[0]
	if bytes.Equal(leaf.Raw, now.own.Leaf.Raw) {
		return nil
	}
	err := verifyChain(s.PeerCertificates, now.clients, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return fmt.Errorf("auth: the client's certificate: %w", err)
	}
	return nil
}

// OwnConfig returns the TLS configuration of a program on the server's side that connects to it. It accepts
// only the server's certificate in certFile, whatever names that is for, and presents the same one.
func OwnConfig(certFile, keyFile string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("auth: certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection checks the certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, own.Leaf.Raw) {
				return fmt.Errorf("the server does not present the certificate in %s", certFile)
			}
			return nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
	}, nil
}
