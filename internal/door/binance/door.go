// Package binance is a door for programs that were written for Binance's spot market: a subset of its REST API, of its
// market streams, of its user data stream and of its WebSocket API, as ccxt, the official Python connectors and others
// read them. It is a subset, not a copy; docs/reference/BINANCE.md, which is made of the tables here, has all that is
// there.
//
// The door translates and decides nothing. Orders are exchange.Command and pass door.Server, which judges them as
// those of any other door; what became of them is read from accounts.View, and what closed long ago from the database;
// market data is market.Feed's. An answer leaves once everything in it is durable, and shows whatever was answered
// before its request arrived, also to others.
//
// A request runs in three steps: its route reads the parameters and returns what is to be done (prepare), then it is
// found out who asks (authorize), and then it is done. Requests of the WebSocket API take the same way.
package binance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"outcry/internal/auth"
	"outcry/internal/door"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// Prefix is the path below which the door is.
const Prefix = "/binance"

// Options are what a Door needs. Keys may be nil, the rest not.
type Options struct {
	// Keys are those that may trade. Nil means that nobody is asked for proof: the key is the id of the account then,
	// and any signature is taken.
	Keys *auth.Keys
	// Sessions returns what executes commands, nil while there is none: at the start, and on a standby.
	Sessions func() *door.Server
	// Feed and View return market data and the view of accounts, nil before they are there.
	Feed func() *market.Feed
	View func() *accounts.View
	// History returns the tables. It is called only while there is what Sessions returns.
	History func() History
	// Sockets has the WebSocket connections.
	Sockets *websocket.Server
	// OrderValueMin returns what an order has to be worth.
	OrderValueMin func() exchange.Cash
	Log           *slog.Logger
}

// Bounds of the door.
const (
	bodyBytesMax    = 64 << 10 // of a request over HTTP, its query included
	requestTimeout  = 10 * time.Second
	largeAnswersMax = 4 // answers about all symbols, or very many orders, that are made at a time
)

// Door answers requests. Its methods may be called from any goroutine.
type Door struct {
	options Options
	large   chan struct{} // holds a value for each large answer that is made
	streams *streams
	cancels cancelNames
}

// New returns a door. Close ends it.
func New(o Options) *Door {
	d := &Door{options: o, large: make(chan struct{}, largeAnswersMax)}
	d.streams = newStreams(d)
	return d
}

// Close ends what the door has running besides requests and connections, which end by themselves.
func (d *Door) Close() { d.streams.close() }

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
		send(w, http.StatusOK, []byte(`{"symbols":[]}`))
	default:
		d.serveREST(w, r, path)
	}
}

// answerSAPI answers what clients ask beside trading: there is nothing of it, except that trading is free.
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
	send(w, http.StatusOK, answer)
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
	send(w, http.StatusOK, answer)
}

// ask answers a request in the three steps: read has read its parameters.
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
	send(w, e.Status, e.json())
}

// send answers with JSON.
func send(w http.ResponseWriter, status int, json []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json") // some clients read an error's text only then
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(json)))
	w.WriteHeader(status)
	_, _ = w.Write(json) // a client that is gone misses it
}
