// Package binance is a door for programs written for Binance's spot market. It has a subset of Binance's REST API,
// market streams, user data stream and WebSocket API, as ccxt, the official Python connectors and others use them.
// docs/reference/BINANCE.md lists all of it, and is generated from the tables here.
//
// The door only translates; it makes no decisions. Orders become exchange.Commands and pass through door.Server, which
// handles them like those of any other door. Results are read from accounts.View, and orders closed long ago from the
// database; market data comes from market.Feed. An answer is sent once everything in it is durable. It includes
// everything that was answered to any client before its request arrived.
//
// A request is served in three steps: its route parses the parameters and returns the work to do (prepare), the client
// is authenticated (authorize), and then the work runs. Requests of the WebSocket API go through the same steps.
package binance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"outcry/internal/auth"
	"outcry/internal/door"
	"outcry/internal/door/asof"
	"outcry/internal/door/fanout"
	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// Prefix is the path below which the door serves.
const Prefix = "/binance"

// Options configure a Door. Keys may be nil, the other fields must be set.
type Options struct {
	// Keys are the API keys. If Keys is nil, no proof is required: the API key is then the id of the account, and any
	// signature is accepted.
	Keys *auth.Keys
	// Sessions returns the server that executes commands, nil during the start and on a standby.
	Sessions func() *door.Server
	// Feed and View return market data and the view of accounts, nil until they exist.
	Feed func() *market.Feed
	View func() *accounts.View
	// History returns the tables. It is called only while Sessions returns a server.
	History func() asof.History
	// Sockets owns the WebSocket connections.
	Sockets *websocket.Server
	// OrderValueMin returns the minimum notional of an order.
	OrderValueMin func() exchange.Cash
	Log           *slog.Logger
}

// Bounds of the door.
const (
	bodyBytesMax    = 64 << 10 // bytes of a request over HTTP, including its query
	requestTimeout  = 10 * time.Second
	largeAnswersMax = 4 // number of answers with all symbols, or very many orders, that may be built at the same time
)

// Door answers requests. Its methods may be called from any goroutine.
type Door struct {
	options Options
	asof    asof.Orders
	large   chan struct{} // holds one value for each large answer being made
	streams fanout.Hub[*reader]
	ticks   func() time.Time // returns when the first stream began
	cancels cancelNames
}

// New returns a door.
func New(o Options) *Door {
	return &Door{options: o, asof: asof.Orders{View: o.View, History: o.History},
		large: make(chan struct{}, largeAnswersMax), ticks: sync.OnceValue(time.Now)}
}

// ServeHTTP implements http.Handler, for all paths below Prefix.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, Prefix)
	switch {
	case path == "/ws" || strings.HasPrefix(path, "/ws/") || path == "/stream":
		d.serveStreams(w, r, path)
	case path == "/ws-api" || path == "/ws-api/v3":
		d.serveAPI(w, r)
	case strings.HasPrefix(path, "/sapi/") && r.Method == http.MethodGet:
		d.answerSAPI(w, r, path)
	case (path == "/fapi/v1/exchangeInfo" || path == "/dapi/v1/exchangeInfo") && r.Method == http.MethodGet:
		jsontext.Send(w, http.StatusOK, []byte(`{"symbols":[]}`))
	default:
		d.serveREST(w, r, path)
	}
}

// answerSAPI answers requests that have nothing to do with trading. There is no such data here, except that trading is
// free.
func (d *Door) answerSAPI(w http.ResponseWriter, r *http.Request, path string) {
	answer := []byte("[]")
	if strings.HasSuffix(path, "/asset/tradeFee") {
		q := &request{ctx: r.Context(), values: map[string]string{}}
		var problem *Error
		if answer, problem = d.tradeFees(q); problem != nil {
			d.refuse(w, problem)
			return
		}
	}
	jsontext.Send(w, http.StatusOK, answer)
}

// serveREST answers a request of the REST API.
func (d *Door) serveREST(w http.ResponseWriter, r *http.Request, path string) {
	if path == "/api/v3/userDataStream" {
		d.refuse(w, errListenKey)
		return
	}
	at := findRoute(r.Method, path)
	if at == nil {
		d.refuse(w, fail(http.StatusNotFound, -1000, fmt.Sprintf(
			"Path %.20s %.80q is not offered; docs/reference/BINANCE.md has those that are.", r.Method, Prefix+path)))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
	if err != nil || len(r.URL.RawQuery) > bodyBytesMax {
		d.refuse(w, fail(http.StatusRequestEntityTooLarge, -1104, "The request is too large, or did not arrive."))
		return
	}
	if r.Method == http.MethodGet {
		body = nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	q := &request{ctx: ctx, address: r.RemoteAddr, key: r.Header.Get("X-MBX-APIKEY"), arrived: time.Now()}
	answer, problem := d.ask(q, at, func() *Error { return q.readREST(r.URL.RawQuery, string(body)) })
	if problem != nil {
		d.refuse(w, problem)
		return
	}
	jsontext.Send(w, http.StatusOK, answer)
}

// ask answers a request in the three steps. read parses its parameters.
func (d *Door) ask(q *request, at *route, read func() *Error) (answer []byte, problem *Error) {
	if at.signed {
		if problem = d.know(q); problem != nil {
			return nil, problem
		}
	} else if problem = d.mayLook(); problem != nil {
		return nil, problem
	}
	if problem = read(); problem != nil {
		return nil, problem
	}
	work, problem := at.prepare(d, q)
	if problem != nil {
		return nil, problem
	}
	if at.signed {
		if problem = d.authorize(q); problem != nil {
			return nil, problem
		}
	}
	return work()
}

// refuse answers with an error.
func (d *Door) refuse(w http.ResponseWriter, e *Error) {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	jsontext.Send(w, e.Status, e.json())
}
