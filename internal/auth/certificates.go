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

// Certificates are what a server shows, and by what it knows its clients. Its methods
// may be called from any goroutine.
type Certificates struct {
	certFile, keyFile, clientCAFile string
	log                             *slog.Logger
	seen                            []stamp // when the files were first read
	reading                         readings
	current                         atomic.Pointer[certificates]
}

// certificates is one state of the files.
type certificates struct {
	file    string // of own
	own     tls.Certificate
	clients *x509.CertPool // nil where clients need no certificate
}

// LoadCertificates reads a certificate and its key, and the authorities of clients
// where clientCAFile is not "": clients then need a certificate of one. Run follows
// the files. A certificate that is not good at this time is taken, since no better one
// is there: Unfit tells. The error names the file that is wrong.
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

// Run follows the files until ctx ends. What is wrong with new ones is logged, and the
// old ones stay in use. Connections that are open stay open.
func (c *Certificates) Run(ctx context.Context) {
	follow(ctx, c.files(), c.seen, c.Reload, c.Failed, func() {}, c.log)
}

// Prepare reads the files, and returns what puts them in force for the connections that
// come then. A certificate that is not good at this time does not replace one that is;
// in place of another that is not it is taken. After an error, or without a call of
// apply, nothing has changed.
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
			c.log.Info("certificates are read anew", "certificate", c.certFile, "expires",
				next.own.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}, nil
	})
}

// Reload reads the files now, as Prepare. After an error nothing has changed.
func (c *Certificates) Reload() error {
	apply, err := c.Prepare()
	if err == nil {
		apply()
	}
	return err
}

// Failed returns why the files were not taken when they were read last, nil if they
// were.
func (c *Certificates) Failed() error { return c.reading.failed() }

// Unfit returns why clients are likely to refuse the certificate that is shown: it has
// expired, or is not good yet. It returns nil where neither is so.
func (c *Certificates) Unfit() error { return unfit(c.current.Load()) }

func unfit(c *certificates) error {
	leaf := c.own.Leaf
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("auth: certificate %s has expired at %s", c.file, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("auth: certificate %s is not good before %s", c.file, leaf.NotBefore.UTC().Format(time.RFC3339))
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

// LoadAuthorities reads a file of certificates in PEM that vouch for others. The error
// names the file.
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

// Expires returns when the certificate that is shown expires.
func (c *Certificates) Expires() time.Time { return c.current.Load().own.Leaf.NotAfter }

// Config returns how a listener speaks TLS: from version 1.2 on, with what the files
// hold at the time of each handshake, and one of the application protocols.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current.Load().own, nil
		},
	}
	if c.clientCAFile != "" {
		// Not RequireAndVerifyClientCert: the authorities may change, and the server's
		// own program has to get in. VerifyConnection is asked on resumption too.
		config.ClientAuth = tls.RequireAnyClientCert
		config.VerifyConnection = c.verifyClient
	}
	return config
}

// verifyClient refuses a client whose certificate is neither of one of the authorities
// nor the server's own: who has that one's key is on the server's side, as is
// `outcryd --health`.
func (c *Certificates) verifyClient(s tls.ConnectionState) error {
	now := c.current.Load()
	if len(s.PeerCertificates) == 0 {
		return errors.New("auth: the client shows no certificate")
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

// OwnConfig returns how the server's own program reaches it: it takes the certificate
// that the files hold and no other, whatever names that is for, and shows the same.
func OwnConfig(certFile, keyFile string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("auth: certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, own.Leaf.Raw) {
				return fmt.Errorf("the server does not show the certificate in %s", certFile)
			}
			return nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
	}, nil
}
