package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"outcry/internal/auth"
)

// security is what the flags say of who may do what, and how often.
type security struct {
	auth           bool
	open           bool
	httpHosts      string
	tlsCert        string
	tlsKey         string
	tlsClientCA    string
	rateConnection int
	rateAccount    int
}

// rateMax bounds the rates: more is no limit.
const rateMax = 1_000_000_000

func (c *security) flags(f *flag.FlagSet) {
	f.BoolVar(&c.auth, "auth", false, "ask for tokens over XML and HTTP; \"outcry token\" makes them")
	f.BoolVar(&c.open, "open", false, "listen beyond this machine without --auth and --tls-client-ca: anybody who reaches it trades for anybody")
	f.StringVar(&c.httpHosts, "http-hosts", "", "`names` by which clients ask for the HTTP side beside localhost, with commas between; without --auth others are refused, and addresses are not")
	f.StringVar(&c.tlsCert, "tls-cert", "", "`file` of the certificate in PEM, with those between it and its authority: XML and HTTP are then spoken over TLS alone")
	f.StringVar(&c.tlsKey, "tls-key", "", "`file` of the certificate's private key in PEM")
	f.StringVar(&c.tlsClientCA, "tls-client-ca", "", "`file` of the authorities in PEM of which clients need a certificate; empty for none")
	f.IntVar(&c.rateConnection, "rate-connection", 0, "`commands` a second of a connection, which is read more slowly above it; 0 for no limit")
	f.IntVar(&c.rateAccount, "rate-account", 0, "`orders` and creates a second of an account, which are refused above it; 0 for no limit")
}

// check returns a *settingError for the first setting whose value cannot be.
func (c *security) check() error {
	switch {
	case (c.tlsCert == "") != (c.tlsKey == ""):
		return wrong("tls-cert", "%q, --tls-key %q: both are needed, or neither", c.tlsCert, c.tlsKey)
	case c.tlsClientCA != "" && c.tlsCert == "":
		return wrong("tls-client-ca", "%q: --tls-cert and --tls-key are needed as well", c.tlsClientCA)
	case slices.ContainsFunc(c.hostNames(), func(h string) bool { return !isHostName(h) }):
		return wrong("http-hosts", "%q: must be host names without ports, with commas between", c.httpHosts)
	case c.rateConnection < 0 || c.rateConnection > rateMax:
		return wrong("rate-connection", "%d: must be from 0 to %d", c.rateConnection, rateMax)
	case c.rateAccount < 0 || c.rateAccount > rateMax:
		return wrong("rate-account", "%d: must be from 0 to %d", c.rateAccount, rateMax)
	}
	return nil
}

// hostNames returns the names of --http-hosts.
func (c *security) hostNames() (all []string) {
	if c.httpHosts == "" {
		return nil
	}
	for name := range strings.SplitSeq(c.httpHosts, ",") {
		all = append(all, strings.TrimSpace(name))
	}
	return all
}

// isHostName reports whether a text can be the name in a Host header.
func isHostName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}

// hosts returns the names that the HTTP side goes by: those of --http-hosts, and that of
// --http.
func (c *config) hosts() []string {
	all := c.hostNames()
	if host, _, err := net.SplitHostPort(c.http); err == nil && isHostName(host) {
		all = append(all, host)
	}
	return all
}

// guards are what proves who is at the other end.
type guards struct {
	certificates *auth.Certificates // nil without TLS
	tokens       *auth.Tokens       // nil without --auth
	remove       func()             // the token of `outcryd --health`
	end          context.CancelFunc // of what follows files; nil where nothing does
}

// startSecurity reads certificates and tokens, and follows their files until
// stopSecurity.
func (s *server) startSecurity() (err error) {
	c, g := &s.config.security, &s.guards
	ctx, cancel := context.WithCancel(context.Background())
	g.end, g.remove = cancel, func() {}
	if c.tlsCert != "" {
		if g.certificates, err = auth.LoadCertificates(c.tlsCert, c.tlsKey, c.tlsClientCA, s.log); err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
		if err := g.certificates.Unfit(); err != nil {
			s.log.Error("clients are likely to refuse the certificate; a new one is taken as soon as the files have it", "error", err)
		}
		s.running.Go(func() { g.certificates.Run(ctx) })
	}
	if c.auth {
		if g.tokens, err = auth.OpenTokens(s.config.data, s.log); err != nil {
			return fmt.Errorf("--auth: %w", err)
		}
		s.running.Go(func() { g.tokens.Run(ctx) })
		if g.remove, err = g.tokens.IssueHealth(); err != nil {
			return fmt.Errorf("--auth: %w", err)
		}
		if g.tokens.Count() == 0 {
			s.log.Warn(noTokenYet, "data", s.config.data)
		}
	}
	s.metrics.watchSecurity(g)
	return nil
}

// stopSecurity ends what startSecurity has started.
func (s *server) stopSecurity() {
	if s.guards.end != nil {
		s.guards.end()
		s.guards.remove()
	}
}

// noTokenYet warns of a server that asks for tokens of which there is none.
const noTokenYet = "there is no token yet, so nobody gets in; `outcry token add` makes one, also while the exchange runs"

// reloadSecurity takes over rates, and certificates and tokens as they are now: their
// files are followed anyway.
func (s *server) reloadSecurity(c *config) (apply func(), err error) {
	certificates, tokens := func() {}, func() {}
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
	return func() {
		certificates()
		tokens()
		s.gateway.SetRates(c.rateConnection, c.rateAccount)
	}, nil
}

// failed returns why a file was not taken when it was read last, nil where all were.
func (g *guards) failed() error {
	if g.certificates != nil && g.certificates.Failed() != nil {
		return g.certificates.Failed()
	}
	if g.tokens != nil {
		return g.tokens.Failed()
	}
	return nil
}

// tls returns how a listener speaks TLS, nil where it does not.
func (g *guards) tls() *tls.Config {
	if g.certificates == nil {
		return nil
	}
	return g.certificates.Config()
}

// watchSecurity adds what is read of tokens and certificates when somebody looks.
func (m *metrics) watchSecurity(g *guards) {
	m.gauge("outcry_config_last_reload_successful", "1 where settings, certificates and tokens were taken over when they were read last, else 0.", func() float64 {
		return oneIf(m.reload.taken.Load() && g.failed() == nil)
	})
	m.gauge("outcry_auth_tokens", "Tokens that are taken; 0 without --auth.", func() float64 {
		if g.tokens == nil {
			return 0
		}
		return float64(g.tokens.Count())
	})
	m.gauge("outcry_tls_certificate_expiry_timestamp_seconds", "When the certificate that is shown expires, in seconds since the Unix epoch; 0 without TLS.", func() float64 {
		if g.certificates == nil {
			return 0
		}
		return float64(g.certificates.Expires().UnixNano()) / float64(time.Second)
	})
}

// exposure is a warning about a port.
type exposure struct{ port, what string }

// String returns the warning.
func (e exposure) String() string {
	return "the " + e.port + " port is open beyond this machine, and " + e.what
}

// exposures returns what to warn of, for the addresses of the XML and the HTTP port;
// nil is a port that there is not.
func (c *security) exposures(xml, http net.Addr) (all []exposure) {
	for _, port := range []struct {
		name   string
		addr   net.Addr
		anyone string
	}{
		{"XML", xml, "whoever reaches it trades for anybody"},
		{"HTTP", http, "whoever reaches it trades for anybody, and reads profiles"},
	} {
		tcp, ok := port.addr.(*net.TCPAddr)
		if !ok || tcp.IP.IsLoopback() {
			continue
		}
		if c.tlsCert == "" {
			all = append(all, exposure{port.name, "it is not encrypted (--tls-cert): whoever is on the way reads what is sent, tokens too, and can change it"})
		}
		if !c.auth && c.tlsClientCA == "" {
			all = append(all, exposure{port.name, "it asks for no token (--auth) and no certificate (--tls-client-ca): " + port.anyone})
		}
	}
	return all
}

// refuseOpen returns why a server does not listen on the addresses of the XML and the HTTP
// port, nil if it does. A nil address is a port that there is not.
func (c *security) refuseOpen(xml, http net.Addr) error {
	if c.open || c.auth || c.tlsClientCA != "" {
		return nil
	}
	for _, port := range []struct {
		flag string
		addr net.Addr
	}{{"listen", xml}, {"http", http}} {
		if tcp, ok := port.addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return fmt.Errorf("--%s %s is open beyond this machine, and anybody who reaches it trades for anybody: ask for tokens (--auth) or certificates (--tls-client-ca), "+
				"listen on 127.0.0.1, or say --open if that is meant", port.flag, tcp.IP)
		}
	}
	return nil
}

// warnOfExposure says loudly what is open beyond this machine without protection.
func (s *server) warnOfExposure(xml net.Addr) {
	for _, e := range s.config.exposures(xml, s.httpAddr) {
		s.log.Warn(e.String(), "port", e.port)
	}
}
