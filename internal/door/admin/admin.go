// Package admin is the HTTP side of the exchange: /metrics (cmd/outcryd makes the metrics), health checks, XML over
// POST, operators' commands, and profiles of the running server. Without Options.Tokens it requires no password: anyone
// who can reach its address may use all of it.
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

// Options configure the HTTP side. All fields but Market, WebSocket, Binance, Origins, Connections, Hosts, Tokens,
// Exchange, Status, Cluster, Members and Alive are required.
type Options struct {
	Gatherer prometheus.Gatherer
	// Ready returns nil while the exchange accepts orders, else the reason why it does not.
	Ready func() error
	// Started returns nil once Answer may be called, else the reason why it may not. An exchange that is not ready for
	// orders may still answer queries and cancels.
	Started func() error
	// Admit waits until a frame of frameBytes bytes may be read, of which head has arrived. release returns its memory
	// and is called once the frame is done. Admit is called only after Started has returned nil, for frames of more than
	// 64 KiB, once 64 KiB have arrived. Unless the error is Busy, it is shown to the client: nothing was done.
	Admit func(ctx context.Context, head []byte, frameBytes int) (release func(), err error)
	// Answer executes the XML of one frame, and calls tell with the reply's XML once it is durable. The reply is valid
	// until tell returns. Answer is called only after Started has returned nil. An error means that tell was not
	// called. If the error is Busy, nothing was executed, because too many frames were in progress or waited.
	Answer func(ctx context.Context, xml []byte, tell func(reply []byte)) error
	Busy   error
	// Refuse returns the XML of a reply with one error.
	Refuse        func(text string) []byte
	FrameBytesMax int // maximum bytes of a body of POST /xml
	// Market serves /, /page/ and /api/. If it is nil, there are no such paths, and / is the same as /help.
	Market http.Handler
	// WebSocket serves GET /api/v1/ws, also for requests without a token, because it checks tokens itself. The
	// request's context has the grant of its token, if any (auth.GrantOf). If WebSocket is nil, there is no such path.
	WebSocket http.Handler
	// Binance serves /binance/ and checks its own keys. If it is nil, there is no such path.
	Binance http.Handler
	// Origins are the origins whose pages may request /api/, /xml and /binance/, exactly as browsers send them.
	Origins []string
	// Connections bounds the server's connections; nil means no bound. The caller must serve on its Listener.
	Connections *Connections
	// Hosts are the names of this server, without ports, in addition to localhost; addresses are always allowed.
	// Without Tokens, requests for other hosts are refused.
	Hosts []string
	// Tokens checks the token of each request; nil means that every request may do everything. Refused and Denied are
	// required with Tokens. They count requests without a valid token, and requests that their token does not allow.
	Tokens          *auth.Tokens
	Refused, Denied func()
	// Exchange returns the exchange that POST /admin/ changes. It is called only after Started has returned nil. Status
	// returns the answer to GET /admin/status. If one is nil, there are no such paths.
	Exchange func() Exchange
	Status   func() remote.Status
	// Cluster returns this node's view of its cluster, within ctx. It is nil without a cluster.
	Cluster func(ctx context.Context) remote.Cluster
	// Members changes the members of the cluster. It is nil without a cluster.
	Members Members
	// Alive returns the text for GET /healthz, or an error if this node does not yet follow its cluster. If it is
	// nil, every server that answers is alive.
	Alive func() (string, error)
	// ProbesOpen shows the status of /readyz and /healthz to requests without a token.
	ProbesOpen bool
	Log        *slog.Logger
	LogLevel   *slog.LevelVar // level of Log
}

// Limits of an HTTP request.
const (
	headerBytesMax = 64 << 10
	headerTimeout  = 10 * time.Second
	readTimeout    = 60 * time.Second
	writeTimeout   = 120 * time.Second // long enough for a CPU profile, which takes 30 seconds
	idleTimeout    = 2 * time.Minute
	bodiesMax      = 1024             // maximum number of bodies of POST /xml that arrive at a time
	bodyTimeout    = 30 * time.Second // maximum time for one of these bodies to arrive
	smallBodyMax   = 64 << 10         // bytes of a body that are read before Admit is called
)

// NewServer returns a server for Handler's paths, with bounds on time and memory. The caller starts it and shuts it
// down.
func NewServer(o Options) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // no HTTP/2, because one connection could then carry hundreds of requests at a time
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

// Handler returns the handler of all paths: /, /help, /page/, /api/, /metrics, /healthz, /readyz, /loglevel, POST /xml,
// /admin/ and /debug/pprof/. Pages of other sites that are open in a browser cannot use it, nor can requests without a
// valid token if Options.Tokens is set.
func Handler(o Options) http.Handler {
	return withinBound(ownPagesOnly(o, &guard{options: o, routes: register(o)}))
}

// register makes the routes. The table rights has the right that each route requires.
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
	// /debug/pprof/cmdline is left out, because the command line may contain the database's password.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // go tool pprof uses POST
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

// healthz answers whether the process is alive and, in a cluster, whether this node follows its cluster.
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
GET  /api/v1/ws      JSON-RPC over WebSocket: orders, market data, accounts; /page/docs.html#websocket
     /binance/       a subset of the API that bots made for Binance use
GET  /api/v1/cluster how a node sees its cluster; only in one
GET  /page/docs.html the documents
GET  /healthz        whether the process is alive; in a cluster, whether it leads or follows
GET  /readyz         whether it accepts orders, and if not, why
GET  /metrics        for Prometheus
PUT  /loglevel       what is logged from now on: DEBUG, INFO, WARN or ERROR; GET shows it
POST /xml            one frame's XML as body, its reply as answer
GET  /admin/status   the state of the exchange, as outcry status shows it
POST /admin/halt?sym=SYM&reason=TEXT, /admin/resume?sym=SYM, /admin/cancel-all?account=ID&sym=SYM
POST /admin/block?account=ID&reason=TEXT, /admin/unblock?account=ID
POST /admin/symbol?sym=SYM&tick=0.01&lot=1&protect=10%25&band=20%25; parameters left out stay unchanged
POST /admin/limits?account=ID&shares=N&notional=N&open=N&stp=MODE; parameters left out stay unchanged
GET  /debug/pprof/   profiles
`
