package admin

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// ownPagesOnly refuses what a page from elsewhere makes a person's browser send: the
// default address is one that only this machine reaches, but so does every page
// that is open on it.
//
// Two things are done. Requests that change something must not come from another
// origin. And on a loopback address the Host must be an address or localhost: a page
// whose own name was made to point here ("DNS rebinding") passes as the same origin.
// A proxy on the same machine must therefore set the Host to the address.
func ownPagesOnly(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if onLoopback(r) && !isAddress(r.Host) {
			http.Error(w, fmt.Sprintf("host %.100q is not taken on a loopback address; use the address or localhost", r.Host), http.StatusForbidden)
			return
		}
		sameOrigin.ServeHTTP(w, r)
	})
}

// onLoopback tells whether a request arrived on an address that only this machine
// reaches.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// isAddress tells whether a Host header names an IP address or localhost, or
// nothing, as browsers never do.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}
