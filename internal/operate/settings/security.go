package settings

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Hosts returns the host names of the HTTP side: those of --http-hosts, and that of --http.
func (c *Config) Hosts() []string {
	all := c.hostNames()
	if host, _, err := net.SplitHostPort(c.HTTP); err == nil && isHostName(host) {
		all = append(all, host)
	}
	return all
}

// hostNames returns the names of --http-hosts.
func (c *Config) hostNames() (all []string) {
	if c.HTTPHosts == "" {
		return nil
	}
	for name := range strings.SplitSeq(c.HTTPHosts, ",") {
		all = append(all, strings.TrimSpace(name))
	}
	return all
}

// Origins returns the origins of --cors-origins.
func (c *Config) Origins() (all []string) {
	if c.CORSOrigins == "" {
		return nil
	}
	for origin := range strings.SplitSeq(c.CORSOrigins, ",") {
		all = append(all, strings.TrimSpace(origin))
	}
	return all
}

// isOrigin reports whether a text is an origin in the form that browsers send: scheme, host, and the port
// unless it is the scheme's default, in lower case. * and null are not origins.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		s == u.Scheme+"://"+strings.ToLower(u.Host) && !strings.ContainsAny(u.Host, "*@ ") &&
		!(u.Scheme == "http" && u.Port() == "80") && !(u.Scheme == "https" && u.Port() == "443") &&
		!strings.HasSuffix(u.Host, ":")
}

// isHostName reports whether a text may be the name in a Host header.
func isHostName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}

// checkSecurity returns a *settingError for the first invalid setting about permissions.
func (c *Config) checkSecurity() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return wrong("tls-cert", "%q, --tls-key %q: both are needed, or neither", c.TLSCert, c.TLSKey)
	case c.TLSClientCA != "" && c.TLSCert == "":
		return wrong("tls-client-ca", "%q: --tls-cert and --tls-key are needed as well", c.TLSClientCA)
	case slices.ContainsFunc(c.hostNames(), func(h string) bool { return !isHostName(h) }):
		return wrong("http-hosts", "%q: must be host names without ports, separated by commas", c.HTTPHosts)
	}
	for _, origin := range c.Origins() {
		if !isOrigin(origin) {
			return wrong("cors-origins", "%q: %q is not an origin as browsers send it, such as https://desk.example",
				c.CORSOrigins, origin)
		}
	}
	return nil
}

// Exposure is a warning about a port that is reachable from other machines.
type Exposure struct{ Port, what string }

// String returns the warning.
func (e Exposure) String() string {
	return "the " + e.Port + " port is open beyond this machine, and " + e.what
}

// Exposures returns the warnings for the addresses of the XML and the HTTP port. A nil address means that
// there is no such port.
func (c *Config) Exposures(xml, http net.Addr) (all []Exposure) {
	for _, port := range []struct {
		name   string
		addr   net.Addr
		anyone string
	}{
		{"XML", xml, "anyone who reaches it can trade for anyone"},
		{"HTTP", http, "anyone who reaches it can trade for anyone, and reads profiles"},
	} {
		tcp, ok := port.addr.(*net.TCPAddr)
		if !ok || tcp.IP.IsLoopback() {
			continue
		}
		if c.TLSCert == "" {
			all = append(all, Exposure{port.name, "it is not encrypted (--tls-cert): " +
				"anyone on the way can read and change what is sent, tokens too"})
		}
		if !c.Auth && c.TLSClientCA == "" {
			all = append(all, Exposure{port.name, "it requires no token (--auth) and no certificate (--tls-client-ca): " +
				port.anyone})
		}
	}
	return all
}

// RefuseOpen returns an error if the server must not listen on the addresses of the XML and the HTTP port. A
// nil address means that there is no such port.
func (c *Config) RefuseOpen(xml, http net.Addr) error {
	if c.Open || c.Auth || c.TLSClientCA != "" {
		return nil
	}
	for _, port := range []struct {
		flag string
		addr net.Addr
	}{{"listen", xml}, {"http", http}} {
		if tcp, ok := port.addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return fmt.Errorf("--%s %s is open beyond this machine, and anyone who reaches it can trade for anyone: "+
				"require tokens (--auth) or certificates (--tls-client-ca), "+
				"listen on 127.0.0.1, or set --open if that is intended", port.flag, tcp.IP)
		}
	}
	return nil
}
