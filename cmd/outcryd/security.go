package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"outcry/internal/auth"
	"outcry/internal/operate/settings"
)

// guards holds what authenticates the two ends of a connection: certificates, tokens and keys.
type guards struct {
	certificates *auth.Certificates // nil without TLS
	tokens       *auth.Tokens       // nil without --auth, like keys
	keys         *auth.Keys         // API keys of the Binance door
	remove       func()             // removes the token of `outcryd --health`
	end          context.CancelFunc // stops watching the files; nil before startSecurity
}

// startSecurity reads certificates and tokens, and watches their files until stopSecurity is called.
func (s *server) startSecurity() (err error) {
	c, g := s.config, &s.guards
	ctx, cancel := context.WithCancel(context.Background())
	g.end, g.remove = cancel, func() {}
	if c.TLSCert != "" {
		if g.certificates, err = auth.LoadCertificates(c.TLSCert, c.TLSKey, c.TLSClientCA, s.log); err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
		if err := g.certificates.Unfit(); err != nil {
			s.log.Error("clients are likely to refuse the certificate; a new one is used as soon as the files contain it",
				"error", err)
		}
		s.running.Go(func() { g.certificates.Run(ctx) })
	}
	if c.Auth {
		if g.tokens, err = auth.OpenTokens(s.config.Data, s.log); err != nil {
			return fmt.Errorf("--auth: %w", err)
		}
		s.running.Go(func() { g.tokens.Run(ctx) })
		if g.keys, err = auth.OpenKeys(s.config.Data, s.log); err != nil {
			return fmt.Errorf("--auth: %w", err)
		}
		s.running.Go(func() { g.keys.Run(ctx) })
		if g.remove, err = g.tokens.IssueHealth(); err != nil {
			return fmt.Errorf("--auth: %w", err)
		}
		if g.tokens.Count() == 0 && g.keys.Count() == 0 {
			s.log.Warn(settings.NoTokenYet, "data", s.config.Data)
		}
	}
	s.metrics.watchSecurity(g)
	return nil
}

// stopSecurity ends what startSecurity started.
func (s *server) stopSecurity() {
	if s.guards.end != nil {
		s.guards.end()
		s.guards.remove()
	}
}

// reloadSecurity applies changed rates, and reads certificates, tokens and keys again without waiting for
// the watchers of their files.
func (s *server) reloadSecurity(c *settings.Config) (apply func(), err error) {
	certificates, tokens, keys := func() {}, func() {}, func() {}
	if g := s.guards.certificates; g != nil {
		if certificates, err = g.Prepare(); err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
	}
	if g := s.guards.tokens; g != nil {
		if tokens, err = g.Prepare(); err != nil {
			return nil, fmt.Errorf("--auth: %w", err)
		}
	}
	if g := s.guards.keys; g != nil {
		if keys, err = g.Prepare(); err != nil {
			return nil, fmt.Errorf("--auth: %w", err)
		}
	}
	return func() {
		certificates()
		tokens()
		keys()
		if s.sessions != nil { // a standby has no sessions yet
			s.sessions.SetRates(c.RateConnection, c.RateAccount)
		}
	}, nil
}

// failed returns why certificates, tokens or keys could not be read last, or nil if all were read.
func (g *guards) failed() error {
	if g.certificates != nil && g.certificates.Failed() != nil {
		return g.certificates.Failed()
	}
	if g.tokens != nil && g.tokens.Failed() != nil {
		return g.tokens.Failed()
	}
	if g.keys != nil {
		return g.keys.Failed()
	}
	return nil
}

// tls returns the TLS configuration for listeners, or nil without TLS.
func (g *guards) tls() *tls.Config {
	if g.certificates == nil {
		return nil
	}
	return g.certificates.Config()
}

// watchSecurity adds the metrics of tokens and certificates, which are read at each scrape.
func (m *metrics) watchSecurity(g *guards) {
	m.gauge("outcry_config_last_reload_successful",
		"1 if settings, certificates and tokens were applied when they were last read, else 0.",
		func() float64 { return oneIf(m.reload.taken.Load() && g.failed() == nil) })
	m.gauge("outcry_auth_tokens", "Valid tokens; 0 without --auth.", func() float64 {
		if g.tokens == nil {
			return 0
		}
		return float64(g.tokens.Count())
	})
	m.gauge("outcry_tls_certificate_expiry_timestamp_seconds",
		"When the certificate in use expires, in seconds since the Unix epoch; 0 without TLS.", func() float64 {
			if g.certificates == nil {
				return 0
			}
			return float64(g.certificates.Expires().UnixNano()) / float64(time.Second)
		})
}

// warnOfExposure logs a warning for each port that other machines can reach without protection.
func (s *server) warnOfExposure(xml net.Addr) {
	for _, e := range s.config.Exposures(xml, s.httpAddr) {
		s.log.Warn(e.String(), "port", e.Port)
	}
}
