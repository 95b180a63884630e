package admin

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// ownPagesOnly refuses requests that pages of other sites make a browser send. The default address can be reached only
// from this machine, but any page that is open in a browser on this machine can reach it too.
//
// It checks two things. Requests that change something must not come from another origin, unless it is one of
// Options.Origins. And the Host must be an address, localhost, or a name in Options.Hosts, because a page whose own
// name was made to point here ("DNS rebinding") passes as the same origin. With tokens, which such pages do not have,
// the second check is made only on loopback addresses. A proxy must therefore set the Host to the address.
func ownPagesOnly(o Options, next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (o.Tokens == nil || onLoopback(r)) && !isAddress(r.Host) && !isOneOf(r.Host, o.Hosts) {
			http.Error(w, fmt.Sprintf("host %.100q is not a name of this server; use its address or localhost, "+
				"or name it in --http-hosts", r.Host), http.StatusForbidden)
			return
		}
		switch listed, done := o.fromListedPage(w, r); {
		case done:
		case listed:
			if _, _, password := r.BasicAuth(); password { // browsers add stored passwords to forms of other sites too
				r.Header.Del("Authorization")
			}
			next.ServeHTTP(w, r)
		default:
			sameOrigin.ServeHTTP(w, r)
		}
	})
}

// onLoopback reports whether a request arrived on an address that can be reached only from this machine.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// isAddress reports whether a Host header is an IP address, localhost, or empty, which browsers never send.
func isAddress(host string) bool {
	host = strings.Trim(withoutPort(host), "[]")
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}

// isOneOf reports whether a Host header is one of hosts.
func isOneOf(host string, hosts []string) bool {
	host = withoutPort(host)
	return slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// withoutPort returns a Host header without its port, if it has one.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
