package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	version   = "13"
	acceptKey = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // RFC 6455, section 1.3
	keyBytes  = 16
)

// refusal is the HTTP answer to a request that opens no WebSocket.
type refusal struct {
	status  int
	text    string
	headers http.Header
}

func (f *refusal) write(w http.ResponseWriter) {
	for name, values := range f.headers {
		w.Header()[name] = values
	}
	http.Error(w, f.text, f.status)
}

// check checks a request for a WebSocket. It returns the value of Sec-WebSocket-Accept, or why the request is refused.
func (s *Server) check(r *http.Request) (accept string, refused *refusal) {
	if !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket") ||
		!r.ProtoAtLeast(1, 1) {
		return "", &refusal{http.StatusUpgradeRequired, "this address speaks WebSocket",
			http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}}
	}
	if r.Method != http.MethodGet {
		return "", &refusal{http.StatusMethodNotAllowed, "WebSocket is requested by GET", http.Header{"Allow": {"GET"}}}
	}
	if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		return "", &refusal{http.StatusBadRequest, "a request for WebSocket has no body", nil}
	}
	if got := r.Header.Values("Sec-Websocket-Version"); len(got) != 1 || got[0] != version {
		return "", &refusal{http.StatusBadRequest, fmt.Sprintf("Sec-WebSocket-Version %.100q: must be %s", got, version),
			http.Header{"Sec-Websocket-Version": {version}}}
	}
	keys := r.Header.Values("Sec-Websocket-Key")
	if len(keys) != 1 {
		return "", &refusal{http.StatusBadRequest, "there must be one Sec-WebSocket-Key", nil}
	}
	key := strings.TrimSpace(keys[0])
	if b, err := base64.StdEncoding.DecodeString(key); err != nil || len(b) != keyBytes {
		return "", &refusal{http.StatusBadRequest,
			fmt.Sprintf("Sec-WebSocket-Key %.100q: must be 16 bytes in base64", key), nil}
	}
	if origins := r.Header.Values("Origin"); !s.allows(r, origins) {
		return "", &refusal{http.StatusForbidden,
			fmt.Sprintf("origin %.100q is not this server's own, nor one of --cors-origins", origins), nil}
	}
	sum := sha1.Sum([]byte(key + acceptKey))
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// hasToken reports whether a header has a token among its comma-separated values, ignoring case.
func hasToken(h http.Header, name, token string) bool {
	for _, value := range h.Values(name) {
		for one := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}

// allows reports whether a request may connect: it has no origin, or one whose pages may connect.
func (s *Server) allows(r *http.Request, origins []string) bool {
	switch {
	case len(origins) == 0:
		return true
	case len(origins) > 1:
		return false
	}
	return IsOwnOrigin(r, origins[0]) || slices.Contains(s.options.Origins, origins[0])
}

// IsOwnOrigin reports whether an origin, as a browser sends it, is that of the server's own pages: it has the scheme,
// the host and the port of the request.
func IsOwnOrigin(r *http.Request, origin string) bool {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	o, err := url.Parse(origin)
	return err == nil && o.Host != "" && strings.EqualFold(o.Scheme, scheme) &&
		o.User == nil && o.Path == "" && o.RawQuery == "" && o.Fragment == "" &&
		strings.EqualFold(withPort(o.Host, scheme), withPort(r.Host, scheme))
}

// withPort returns a host with its port. It adds the scheme's default port if host has none.
func withPort(host, scheme string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}
