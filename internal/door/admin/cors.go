package admin

import (
	"net/http"
	"slices"
	"strings"
)

// Methods and headers that pages of Options.Origins may use in addition to those that every page may use. Browsers
// are not allowed to send stored credentials for this server, and such credentials have no effect: these pages send
// tokens as bearers, or their own keys.
const (
	corsMethods = "GET, POST, PUT, DELETE"
	corsHeaders = "Authorization, Content-Type, X-MBX-APIKEY, X-MBX-TIME-UNIT"
	corsExposed = "Retry-After, X-MBX-USED-WEIGHT-1M, X-MBX-ORDER-COUNT-10S"
	corsMaxAge  = "600" // seconds
)

// isForPages reports whether pages of Options.Origins may request a path.
func isForPages(path string) bool {
	return strings.HasPrefix(path, "/api/") || path == "/xml" || strings.HasPrefix(path, "/binance/")
}

// fromListedPage reports whether a page of one of Options.Origins makes the request, and if so adds the headers that
// say what the page may do. done is true if the request was a preflight, which is then answered.
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
