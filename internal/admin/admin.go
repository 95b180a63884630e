// Package admin is the HTTP side of the exchange: metrics, health, XML over POST,
// and profiles for whoever looks into a running server.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are what the HTTP side needs. All are required.
type Options struct {
	Gatherer prometheus.Gatherer
	// Ready returns nil while the exchange takes orders, else why it does not.
	Ready func() error
	// Answer does one frame's XML and returns its reply's XML.
	Answer func(ctx context.Context, xml []byte) ([]byte, error)
	// Refuse returns a reply's XML that is one error.
	Refuse        func(text string) []byte
	FrameBytesMax int
	Log           *slog.Logger
}

// Limits of a request over HTTP.
const (
	headerBytesMax = 64 << 10
	headerTimeout  = 10 * time.Second
	readTimeout    = 60 * time.Second
	writeTimeout   = 120 * time.Second // a CPU profile takes 30 seconds by itself
	idleTimeout    = 2 * time.Minute
	answersMax     = 1024 // POST /xml at a time
)

// NewServer returns a server without a listener.
func NewServer(o Options) *http.Server {
	return &http.Server{
		Handler:           Handler(o),
		MaxHeaderBytes:    headerBytesMax,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
}

// Handler returns the handler of all paths.
//
// A page of another origin that a person has open must not trade: browsers are
// refused when they send POST /xml from elsewhere.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("POST /xml", http.NewCrossOriginProtection().Handler(&xmlHandler{o, make(chan struct{}, answersMax)}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, index) })
	return mux
}

const index = `Outcry, an exchange.

GET  /healthz        whether the process is alive
GET  /readyz         whether it takes orders, and if not, why
GET  /metrics        for Prometheus
POST /xml            one frame's XML as body, its reply as answer
GET  /debug/pprof/   profiles
`

// xmlHandler answers POST /xml.
type xmlHandler struct {
	options Options
	running chan struct{} // holds a value for each request under way
}

func (h *xmlHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	default:
		h.reply(w, http.StatusServiceUnavailable, h.options.Refuse("too many requests at a time, try again"))
		return
	}
	if err := h.options.Ready(); err != nil {
		h.reply(w, http.StatusServiceUnavailable, h.options.Refuse(err.Error()))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.options.FrameBytesMax)))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		h.reply(w, http.StatusRequestEntityTooLarge, h.options.Refuse(fmt.Sprintf("a frame is over the limit of %d bytes", tooLarge.Limit)))
		return
	}
	if err != nil {
		return // the client is gone
	}
	answer, err := h.options.Answer(r.Context(), body)
	if err != nil {
		h.reply(w, http.StatusServiceUnavailable, h.options.Refuse("the exchange is stopping; whether the request was done is known after it has started again"))
		return
	}
	h.reply(w, http.StatusOK, answer)
}

func (h *xmlHandler) reply(w http.ResponseWriter, status int, xml []byte) {
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(xml) // a client that is gone misses it
}
