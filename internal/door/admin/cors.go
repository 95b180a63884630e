package admin

import (
	"net/http"
	"slices"
	"strings"
)

// What pages of Options.Origins may send and read, beside what every page may. Browsers are never told to send what
// they have stored for this server, and where they do all the same it does not count: such pages show tokens, as
// bearers, and keys of their own.
const (
	corsMethods = "GET, POST, PUT, DELETE"
	corsHeaders = "Authorization, Content-Type, X-MBX-APIKEY, X-MBX-TIME-UNIT"
	corsExposed = "Retry-After, X-MBX-USED-WEIGHT-1M, X-MBX-ORDER-COUNT-10S"
	corsMaxAge  = "600" // seconds
)

// isForPages reports whether a path is one that pages of Options.Origins may ask for.
func isForPages(path string) bool {
	return strings.HasPrefix(path, "/api/") || path == "/xml" || strings.HasPrefix(path, "/binance/")
}

// fromListedPage says in the answer what a page of one of Options.Origins may do, if it is one that asks, and reports
// whether it is. A preflight is answered by that, and done is true.
func (o *Options) fromListedPage(w http.ResponseWriter, r *http.Request) (listed, done bool) {
	if len(o.Origins) == 0 || !isForPages(r.URL.Path) {
		return false, false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !slices.Contains(o.Origins, origins[0]) {
		return false, false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return true, false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true, true
}
