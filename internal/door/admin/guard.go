package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"outcry/internal/auth"
)

// rights has the right that each route requires. A route that is not here requires Admin, so that a forgotten one is
// not open.
var rights = map[string]auth.Right{
	"GET /{$}":                 auth.Market,
	"GET /page/":               auth.Market,
	"GET /api/":                auth.Market,
	"GET /api/v1/cluster":      auth.Market,
	"GET /api/v1/ws":           auth.Probe, // each of the WebSocket's methods requires more
	"/binance/":                auth.Probe, // see ownKeys
	"GET /api/v1/orders/":      auth.Orders,
	"GET /help":                auth.Probe,
	"GET /healthz":             auth.Probe,
	"GET /readyz":              auth.Probe,
	"GET /metrics":             auth.Metrics,
	"GET /loglevel":            auth.Operate,
	"PUT /loglevel":            auth.Operate,
	"POST /xml":                auth.Trade,
	"GET /debug/pprof/":        auth.Operate,
	"GET /debug/pprof/profile": auth.Operate,
	"GET /debug/pprof/symbol":  auth.Operate,
	"GET /debug/pprof/trace":   auth.Operate,

	"POST /debug/pprof/symbol": auth.Operate,
	"POST /admin/halt":         auth.Operate,
	"POST /admin/resume":       auth.Operate,
	"POST /admin/cancel-all":   auth.Operate,
	"POST /admin/block":        auth.Operate,
	"POST /admin/unblock":      auth.Operate,
	"POST /admin/symbol":       auth.Operate,
	"POST /admin/limits":       auth.Operate,
	"GET /admin/status":        auth.Operate,

	"POST /admin/cluster/transfer": auth.Operate,
	"POST /admin/cluster/add":      auth.Operate,
	"POST /admin/cluster/promote":  auth.Operate,
	"POST /admin/cluster/remove":   auth.Operate,
	"POST /admin/cluster/replace":  auth.Operate,
}

// Routes that authenticate clients themselves: ownKeys with its own keys, lateToken also with a token sent later over
// the connection.
const (
	ownKeys   = "/binance/"
	lateToken = "GET /api/v1/ws"
)

// routes is a ServeMux that remembers its patterns.
type routes struct {
	*http.ServeMux
	patterns []string
}

func newRoutes() *routes { return &routes{ServeMux: http.NewServeMux()} }

// Handle adds a route, like ServeMux.Handle.
func (r *routes) Handle(pattern string, h http.Handler) {
	r.patterns = append(r.patterns, pattern)
	r.ServeMux.Handle(pattern, h)
}

// HandleFunc adds a route, like ServeMux.HandleFunc.
func (r *routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.Handle(pattern, http.HandlerFunc(h))
}

// Patterns returns the patterns of all routes, in http.ServeMux's syntax, for tests that try each.
func Patterns(o Options) []string { return register(o).patterns }

// guard passes only requests with a token that allows them to the routes. Others get no information about which routes
// exist.
type guard struct {
	options Options
	routes  *routes
}

// errNoToken means that a request has no token.
var errNoToken = errors.New("a token is needed: as a bearer, or as the password of any user")

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.options.Tokens == nil {
		g.routes.ServeHTTP(w, r)
		return
	}
	_, pattern := g.routes.Handler(r)
	if pattern == ownKeys {
		g.routes.ServeHTTP(w, r)
		return
	}
	if pattern == lateToken && isLate(r) {
		g.routes.ServeHTTP(w, r)
		return
	}
	grant, err := g.grantOf(r)
	if errors.Is(err, errNoToken) && g.options.ProbesOpen && isOpenProbe(r) {
		g.routes.ServeHTTP(&statusOnly{ResponseWriter: w}, r)
		return
	}
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	right, known := rights[pattern]
	if !known {
		right = auth.Admin
	}
	if !grant.Scope.Allows(right) {
		g.options.Denied()
		http.Error(w, "the token does not allow this, which needs scope "+right.Scopes(), http.StatusForbidden)
		return
	}
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && !c.bound.enter(c, grant.ID) {
		http.Error(w, "the token is at its limit of concurrent requests; try again later", http.StatusServiceUnavailable)
		return
	}
	ctx := auth.WithGrant(r.Context(), grant)
	if right != auth.Trade { // a trading request that has begun is finished even if its token ends, as over TCP
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer grant.AfterEnd(cancel)()
	}
	g.routes.ServeHTTP(w, r.WithContext(ctx))
}

// isLate reports whether a client of lateToken will send its token over the connection: it has no token in a header,
// or one as a password. A browser adds by itself the password that the page was opened with, but the page trades with
// another token.
func isLate(r *http.Request) bool {
	headers := r.Header.Values("Authorization")
	_, _, password := r.BasicAuth()
	return len(headers) == 0 || len(headers) == 1 && password
}

// isOpenProbe reports whether a request is a probe that load balancers send without a token.
func isOpenProbe(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.URL.Path == "/readyz" || r.URL.Path == "/healthz")
}

// statusOnly is a response writer that sends only the status.
type statusOnly struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (s *statusOnly) Write(text []byte) (int, error) { return len(text), nil }

// grantOf returns the grant of a request's token.
func (g *guard) grantOf(r *http.Request) (*auth.Grant, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return nil, errNoToken
	}
	if _, password, ok := r.BasicAuth(); ok {
		return g.options.Tokens.Check(password)
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, errNoToken
	}
	return g.options.Tokens.Check(strings.TrimSpace(token))
}

// refuse answers a request without a valid token. The answer is the same whatever is wrong. It is delayed for a client
// that sends many wrong tokens.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, why error) {
	g.options.Refused()
	status := http.StatusUnauthorized
	if !errors.Is(why, errNoToken) { // a missing token is not logged: every browser's first request has none
		answer, slowed := g.options.Tokens.Wrong(r.Context(), r.RemoteAddr)
		g.options.Log.Info("a request has no valid token",
			"client", r.RemoteAddr, "error", why, slog.Bool("slowed", slowed))
		if !answer {
			w.Header().Set("Retry-After", "1")
			status = http.StatusTooManyRequests
		}
		w.Header().Set("Connection", "close")
	}
	w.Header().Add("WWW-Authenticate", `Basic realm="Outcry", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", `Bearer realm="Outcry"`)
	http.Error(w, errNoToken.Error(), status)
}
