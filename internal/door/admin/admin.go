// Package admin is the HTTP side of the exchange: metrics, health, XML over POST,
// and profiles for those who look into a running server. Without Options.Tokens it asks
// for no password: anyone who reaches its address may do all of it.
package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"outcry/internal/auth"
	"outcry/internal/operate/remote"
)

// Options are what the HTTP side needs. All but Market, WebSocket, Binance, Origins, Connections, Hosts,
// Tokens, Exchange, Status, Cluster, Members and Alive are required.
type Options struct {
	Gatherer prometheus.Gatherer
	// Ready returns nil while the exchange takes orders, else why it does not.
	Ready func() error
	// Started returns nil once Answer may be called, else why it may not. What is
	// not ready for orders may still answer queries and cancels.
	Started func() error
	// Admit waits for the memory to read a frame of so many bytes, and returns what
	// gives it back once the frame is done. It is called only after Started has
	// returned nil, for frames of more than 64 KiB, when so much has arrived. An
	// error is for the client: nothing was done.
	Admit func(ctx context.Context, frameBytes int) (release func(), err error)
	// Answer does one frame's XML and calls tell with its reply's XML once it may be
	// told; the reply is valid until tell returns. It is called only after Started
	// has returned nil. An error means that nothing was told, and may not be. If it is
	// Busy, nothing was done either: there were too many at a time.
	Answer func(ctx context.Context, xml []byte, tell func(reply []byte)) error
	Busy   error
	// Refuse returns a reply's XML that is one error.
	Refuse        func(text string) []byte
	FrameBytesMax int // largest body of POST /xml
	// Market serves /, /page/ and /api/. Nil means that nobody does: / is the same
	// as /help then.
	Market http.Handler
	// WebSocket serves GET /api/v1/ws, also without a token: it asks for one itself. A grant in the context
	// (auth.GrantOf) is what the request has shown. Nil means that there is no such path.
	WebSocket http.Handler
	// Binance serves /binance/, which asks for keys of its own; nil means that there is no such path.
	Binance http.Handler
	// Origins are those whose pages may ask for /api/, /xml and /binance/, exactly as browsers send them.
	Origins []string
	// Connections bounds the server's connections; nil means no bound. The caller has
	// the server serve its Listener.
	Connections *Connections
	// Hosts are the names by which clients may ask for this server, without ports,
	// beside localhost; addresses always may. Without Tokens others are refused.
	Hosts []string
	// Tokens are asked about each request; nil means that everybody may do everything.
	// Refused and Denied, which are needed with them, count requests without a token that
	// is taken, and those that their token does not allow.
	Tokens          *auth.Tokens
	Refused, Denied func()
	// Exchange returns what POST /admin/ changes, Status what GET /admin/status tells.
	// Exchange is called only after Started has returned nil. Nil means that there are
	// no such paths.
	Exchange func() Exchange
	Status   func() remote.Status
	// Cluster returns how this node sees its cluster, within ctx; nil if it is not of one.
	Cluster func(ctx context.Context) remote.Cluster
	// Members is what operators change of the cluster; nil if there is none.
	Members Members
	// Alive returns what GET /healthz answers, or why the node of a cluster is none that
	// follows yet; nil means that a server that answers is alive.
	Alive func() (string, error)
	// ProbesOpen lets requests without a token know the status of /readyz and /healthz.
	ProbesOpen bool
	Log        *slog.Logger
	LogLevel   *slog.LevelVar // of Log
}

// Limits of a request over HTTP.
const (
	headerBytesMax = 64 << 10
	headerTimeout  = 10 * time.Second
	readTimeout    = 60 * time.Second
	writeTimeout   = 120 * time.Second // a CPU profile takes 30 seconds by itself
	idleTimeout    = 2 * time.Minute
	bodiesMax      = 1024             // bodies of POST /xml that arrive at a time
	bodyTimeout    = 30 * time.Second // for one of them
	smallBodyMax   = 64 << 10         // bytes of one that are read before memory is asked for
)

// NewServer returns a server of Handler's paths, with bounds on time and memory. The
// caller has it serve and shuts it down.
func NewServer(o Options) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // not HTTP/2: one connection would be hundreds of requests
	s := &http.Server{
		Protocols:         &protocols,
		Handler:           Handler(o),
		MaxHeaderBytes:    headerBytesMax,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          troubleLog(o.Log),
	}
	if o.Connections != nil {
		s.ConnState, s.ConnContext = o.Connections.watch, o.Connections.mark
	}
	return s
}

// Handler returns the handler of all paths: /, /help, /page/, /api/, /metrics, /healthz,
// /readyz, /loglevel, POST /xml, /admin/ and /debug/pprof/. Pages that a person has open in
// a browser can't use it unless they come from it, and nobody can without a token that
// Options.Tokens takes.
func Handler(o Options) http.Handler {
	return withinBound(ownPagesOnly(o, &guard{options: o, routes: register(o)}))
}

// register makes the routes. What each asks of a token is in rights.
func register(o Options) *routes {
	mux := newRoutes()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorLog: troubleLog(o.Log)}))
	mux.HandleFunc("GET /healthz", o.healthz)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	if o.Cluster != nil {
		mux.HandleFunc("GET /api/v1/cluster", func(w http.ResponseWriter, r *http.Request) {
			answerJSON(w, http.StatusOK, o.Cluster(r.Context()))
		})
	}
	mux.HandleFunc("GET /loglevel", o.showLogLevel)
	mux.HandleFunc("PUT /loglevel", o.setLogLevel)
	mux.Handle("POST /xml", &xmlHandler{options: o})
	if o.WebSocket != nil {
		mux.Handle("GET /api/v1/ws", o.WebSocket)
	}
	if o.Binance != nil {
		mux.Handle("/binance/", o.Binance)
	}
	o.registerOperations(mux)
	// Not /debug/pprof/cmdline: the command line may have the database's password.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // as go tool pprof asks it
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /help", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, index) })
	if o.Market != nil {
		mux.Handle("GET /{$}", o.Market)
		mux.Handle("GET /page/", o.Market)
		mux.Handle("GET /api/", o.Market)
		mux.Handle("GET /api/v1/orders/", o.Market)
	} else {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, index) })
	}
	return mux
}

// healthz answers whether the process is alive and, in a cluster, of use to it.
func (o *Options) healthz(w http.ResponseWriter, _ *http.Request) {
	text := "ok"
	if o.Alive != nil {
		var err error
		if text, err = o.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, text)
}

const index = `Outcry, an exchange.

GET  /               the market, for people
GET  /api/v1/        the market, as data; /page/api.html describes it, and /api/v1/openapi.yaml to programs
GET  /api/v1/ws      JSON-RPC over WebSocket: orders, market data, what accounts have; /page/docs.html#websocket
     /binance/       what bots made for Binance speak: a subset
GET  /api/v1/cluster how a node sees its cluster; only in one
GET  /page/docs.html the documents
GET  /healthz        whether the process is alive; in a cluster, whether it leads or follows
GET  /readyz         whether it takes orders, and if not, why
GET  /metrics        for Prometheus
PUT  /loglevel       what is logged from now on: DEBUG, INFO, WARN or ERROR; GET tells it
POST /xml            one frame's XML as body, its reply as answer
GET  /admin/status   how the exchange is doing, as outcry status shows it
POST /admin/halt?sym=SYM&reason=TEXT, /admin/resume?sym=SYM, /admin/cancel-all?account=ID&sym=SYM
POST /admin/block?account=ID&reason=TEXT, /admin/unblock?account=ID
POST /admin/symbol?sym=SYM&tick=0.01&lot=1&protect=10%25&band=20%25, what is left out stays
POST /admin/limits?account=ID&shares=N&notional=N&open=N&stp=MODE, what is left out stays
GET  /debug/pprof/   profiles
`
