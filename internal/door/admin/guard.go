package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"outcry/internal/auth"
)

// rights are what the routes ask of a token. A route that is not here asks for Admin,
// so that none can be forgotten.
var rights = map[string]auth.Right{
	"GET /{$}":                 auth.Market,
	"GET /page/":               auth.Market,
	"GET /api/":                auth.Market,
	"GET /api/v1/cluster":      auth.Market,
	"GET /api/v1/ws":           auth.Probe, // each of its methods asks for more
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

// Routes that ask by themselves who a client is: ownKeys in ways of their own, lateToken also by a token that is shown
// later.
const (
	ownKeys   = "/binance/"
	lateToken = "GET /api/v1/ws"
)

// routes is a ServeMux that knows its patterns.
type routes struct {
	*http.ServeMux
	patterns []string
}

func newRoutes() *routes { return &routes{ServeMux: http.NewServeMux()} }

// Handle is ServeMux.Handle.
func (r *routes) Handle(pattern string, h http.Handler) {
	r.patterns = append(r.patterns, pattern)
	r.ServeMux.Handle(pattern, h)
}

// HandleFunc is ServeMux.HandleFunc.
func (r *routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.Handle(pattern, http.HandlerFunc(h))
}

// Patterns returns those of all routes, as http.ServeMux has them, for those who try
// each.
func Patterns(o Options) []string { return register(o).patterns }

// guard lets nobody through to the routes without a token that allows it, and tells
// nobody else what there is.
type guard struct {
	options Options
	routes  *routes
}

// errNoToken says that a request has no token.
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
		http.Error(w, "the token is not for this, which needs scope "+right.Scopes(), http.StatusForbidden)
		return
	}
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && !c.bound.enter(c, grant.ID) {
		http.Error(w, "the token has as many requests under way as it may; try again later", http.StatusServiceUnavailable)
		return
	}
	ctx := auth.WithGrant(r.Context(), grant)
	if right != auth.Trade { // a frame that has begun is finished, as over TCP
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer grant.AfterEnd(cancel)()
	}
	g.routes.ServeHTTP(w, r.WithContext(ctx))
}

// isLate reports whether a client of lateToken shows its token in the connection: it has no header of one, or one as a
// password. That is how a browser sends, by itself, the token that the page was opened with, and the page trades with
// another.
func isLate(r *http.Request) bool {
	headers := r.Header.Values("Authorization")
	_, _, password := r.BasicAuth()
	return len(headers) == 0 || len(headers) == 1 && password
}

// isOpenProbe reports whether a request is one that load balancers send without a token.
func isOpenProbe(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.URL.Path == "/readyz" || r.URL.Path == "/healthz")
}

// statusOnly is an answer of which the client gets the status alone.
type statusOnly struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (s *statusOnly) Write(text []byte) (int, error) { return len(text), nil }

// grantOf returns what the token of a request allows.
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

// refuse answers a request without a token that is taken. All get the same answer,
// whatever is wrong; a client that sends wrong tokens all the time gets it later.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, why error) {
	g.options.Refused()
	status := http.StatusUnauthorized
	if !errors.Is(why, errNoToken) { // which is how every browser begins
		answer, slowed := g.options.Tokens.Wrong(r.Context(), r.RemoteAddr)
		g.options.Log.Info("a request shows no token that is taken",
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
