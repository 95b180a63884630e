// Package web serves market data over HTTP below /api/v1/: answers, a stream of server-sent events, and the
// descriptions of the API. It also serves the web page and the documents. The data contains no account ids and no
// balances.
//
// The market is that of a market.Feed. Several times a second the feed calls API.Publish, and the hub encodes the
// changes, once for all readers; each reader of the stream has a goroutine. Slow readers miss updates and notice it
// from the sequence numbers; readers that read nothing are disconnected.
//
// The stream does not use package fanout. It compares states at most five times a second and lists all symbols; with
// fanout, its readers would make the feed compute the changes of every record and wake at every sync.
package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"outcry/docs"
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// Bounds and defaults of the query parameters.
const (
	symbolsDefault = 1000
	symbolsMost    = 5000
	depthDefault   = 10
	depthMost      = 1000
	tradesDefault  = 100
	tradesMost     = 1000

	candlesDefault = 500

	executionsDefault = 1000 // number of executions in an answer about an order
	executionsMost    = 10_000

	streamDepthMost = 200

	// Maximum number of answers of one kind that are made and sent at a time. This bounds their memory, and a client
	// that delays answers of one kind does not delay the other kinds.
	symbolsAnswersMax = 16
	marketAnswersMax  = 32 // books and trades together
	candlesAnswersMax = 16
	ordersAnswersMax  = 16

	// orderTimeout is how long a request for an order or for candles may wait for Postgres. Without it, clients
	// would wait as long as Postgres is unavailable.
	orderTimeout = 5 * time.Second

	// answerTimeout is how long a client may take to read an answer.
	answerTimeout = 30 * time.Second
)

// Errors of requests.
var (
	errTooManyReaders = errors.New("the stream is at its limit of readers; try again later")
	errGone           = errors.New("trades are no longer in memory")
)

// APIOptions configure an API.
type APIOptions struct {
	// Started returns nil once Attach was called; before that, the reason why the server has not started yet.
	Started func() error
	// Order returns an order with up to most of its executions, skipping the first after ones. It waits until everything
	// that it returns is durable. found is false if there is no such order. The error means that the order could not be
	// looked up.
	Order func(ctx context.Context, id exchange.OrderID, after, most int) (o exchange.PublicOrder, found bool, err error)

	// Health returns how the exchange is doing. Publish calls it once a second.
	Health func() Health
	// Orders says where orders are sent; the stream begins with it.
	Orders OrderEntry

	Version      string
	ReadersMax   int           // maximum number of readers of the stream at a time
	WriteTimeout time.Duration // how long a reader of the stream may read nothing
	Log          *slog.Logger
	Metrics      *Metrics
}

// OrderEntry describes how a client reaches the port that accepts orders.
type OrderEntry struct {
	Port   int
	Local  bool // only clients on this machine can connect
	TLS    bool // the port requires TLS
	Tokens bool // clients must present a token
}

// Health is the state of the exchange, measured over about the last second.
type Health struct {
	OrdersPerSecond, RequestsPerSecond float64
	P50, P99                           float64 // duration of requests in seconds
	LagRecords                         uint64  // number of journal records that Postgres does not have yet
	LagSeconds                         float64 // how long Postgres has been behind
	PostgresUp                         bool
	NotReady                           error // why orders are not accepted; nil while they are
}

// API serves the market data over HTTP below /api/v1/, and the page. Its methods may be called from any goroutine.
type API struct {
	options APIOptions
	mux     *http.ServeMux
	start   string              // random id of this run of the server
	hub     atomic.Pointer[hub] // nil before Attach

	readersMax atomic.Int64 // maximum number of readers of the stream
	waiting    atomic.Int64 // number of requests that wait for a record
}

// SetReadersMax changes the maximum number of readers of the stream at a time. Present readers stay connected.
func (a *API) SetReadersMax(n int) { a.readersMax.Store(int64(n)) }

// NewAPI returns an API without market data. Attach adds it.
func NewAPI(o APIOptions) *API {
	var start [8]byte
	_, _ = rand.Read(start[:]) // never fails
	a := &API{options: o, mux: http.NewServeMux(), start: hex.EncodeToString(start[:])}
	a.SetReadersMax(o.ReadersMax)
	a.mux.HandleFunc("GET /api/v1/symbols", a.answer(symbolsAnswersMax, a.symbols))
	a.mux.HandleFunc("GET /api/v1/book/{sym}", a.answer(marketAnswersMax, a.book))
	a.mux.HandleFunc("GET /api/v1/trades/{sym}", a.answer(marketAnswersMax, a.trades))
	a.mux.HandleFunc("GET /api/v1/candles/{sym}", a.answer(candlesAnswersMax, a.candles))
	a.mux.HandleFunc("GET /api/v1/orders/{id}", a.answer(ordersAnswersMax, a.order))
	a.mux.HandleFunc("GET /api/v1/stream", a.stream)
	for path, description := range map[string][]byte{"openapi.yaml": docs.OpenAPI, "asyncapi.yaml": docs.AsyncAPI} {
		a.mux.HandleFunc("GET /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(description) // an error means that the client has disconnected
		})
	}
	a.mux.HandleFunc("GET /api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound,
			fmt.Errorf("there is no %.200q; /page/api.html has all paths, /api/v1/openapi.yaml for programs", r.URL.Path))
	})
	newPage().register(a.mux)
	return a
}

// Attach makes the API serve the data of a feed. It is called once.
func (a *API) Attach(f *market.Feed) { a.hub.Store(newHub(f, a.options.Health)) }

// Publish makes the new events of the stream. It is the feed's Options.Publish.
func (a *API) Publish(now time.Time) {
	if h := a.hub.Load(); h != nil {
		h.look(now)
	}
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// statusError is an error with an HTTP status.
type statusError struct {
	status int
	error
}

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	var s *statusError
	switch {
	case errors.As(err, &s):
		return s.status
	case errors.Is(err, market.ErrUnknownSymbol):
		return http.StatusNotFound
	case errors.Is(err, errGone):
		return http.StatusGone
	}
	return http.StatusServiceUnavailable
}

// refuse answers with an HTTP status and an error.
func refuse(w http.ResponseWriter, status int, err error) {
	jsontext.Send(w, status, append(jsontext.Text([]byte{'{'}, "error", err.Error()), '}'))
}

// current returns the hub, or an error that says why there is no market data.
func (a *API) current() (*hub, error) {
	h := a.hub.Load()
	if h == nil {
		err := a.options.Started()
		if err == nil {
			err = errors.New("starting")
		}
		return nil, err
	}
	return h, h.feed.Err()
}

// answer returns a handler that sends the result of answerOf. It serves at most most requests at a time.
func (a *API) answer(most int,
	answerOf func(f *market.Feed, r *http.Request, q query) ([]byte, error)) http.HandlerFunc {
	running := make(chan struct{}, most) // holds one value for each request being served
	return func(w http.ResponseWriter, r *http.Request) {
		q := query{r.URL.Query()}
		h, err := a.ready(r, q)
		if err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		f := h.feed
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
		default:
			refuse(w, http.StatusServiceUnavailable,
				fmt.Errorf("%d requests of this kind are in progress, which is the limit; try again", most))
			return
		}
		w.Header().Set(seqHeader, strconv.FormatUint(f.Seq(), 10)) // set before answerOf reads: the answer may be newer
		json, err := answerOf(f, r, q)
		if err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		// If this fails, the server's own write timeout applies.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		jsontext.Send(w, http.StatusOK, json)
	}
}

// query holds the parameters of a request.
type query struct{ url.Values }

// number returns a parameter from least to most, or standard if it is not given.
func (q query) number(name string, standard, least, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s %.100q is not a number from %d to %d", name, text, least, most)
	}
	return n, nil
}

// symbolOf parses a symbol's name.
func symbolOf(name string) (exchange.Symbol, error) {
	s, err := exchange.ParseSymbol(name)
	if err != nil {
		return "", badRequest("%w", err)
	}
	return s, nil
}

// symbols answers with the symbols after a name.
func (a *API) symbols(f *market.Feed, _ *http.Request, q query) (json []byte, err error) {
	limit, err := q.number("limit", symbolsDefault, 1, symbolsMost)
	if err != nil {
		return nil, err
	}
	after := exchange.Symbol(q.Get("after"))
	if after != "" {
		if after, err = symbolOf(string(after)); err != nil {
			return nil, err
		}
	}
	list := symbolList{seq: f.Seq()} // the seq of an answer without symbols
	err = f.Each(after, func(m *market.Market) bool {
		list.add(m)
		return list.n < limit
	})
	return list.end(), err
}

// viewSymbol calls read with the symbol that a request names.
func viewSymbol(f *market.Feed, r *http.Request, read func(m *market.Market)) error {
	name, err := symbolOf(r.PathValue("sym"))
	if err != nil {
		return err
	}
	return f.View(name, read)
}

// book answers with the best levels of a symbol.
func (a *API) book(f *market.Feed, r *http.Request, q query) (json []byte, err error) {
	depth, err := q.number("depth", depthDefault, 1, depthMost)
	if err != nil {
		return nil, err
	}
	err = viewSymbol(f, r, func(m *market.Market) {
		json = jsontext.Word(jsontext.Number(append(json, '{'), "seq", m.Seq()), "sym", m.Symbol())
		json = append(appendLevels(json, m, depth), '}')
	})
	return json, err
}

// trades answers with the trades of a symbol after a trade id, or with the newest ones.
func (a *API) trades(f *market.Feed, r *http.Request, q query) (json []byte, err error) {
	limit, err := q.number("limit", tradesDefault, 1, tradesMost)
	if err != nil {
		return nil, err
	}
	var after uint64
	given := q.Get("after")
	if given != "" {
		if after, err = strconv.ParseUint(given, 10, 63); err != nil {
			return nil, badRequest("after %.100q is not the id of a trade", given)
		}
	}
	var gone error
	err = viewSymbol(f, r, func(m *market.Market) {
		first, last := after+1, m.LastTrade()
		switch {
		case given == "":
			first = max(m.FirstTrade(), last-min(last, uint64(limit))+1)
		case first < m.FirstTrade():
			gone = fmt.Errorf("%w: those of %s start at %d; all are in the relation executions of the database",
				errGone, m.Symbol(), m.FirstTrade())
			return
		}
		last = min(last, first-1+uint64(limit))
		json = appendTrades(nil, m, m.Seq(), first, last)
	})
	return json, errors.Join(err, gone)
}

// order answers with an order and a page of its executions.
func (a *API) order(_ *market.Feed, r *http.Request, q query) (json []byte, err error) {
	id, err := exchange.ParseOrderID(r.PathValue("id"))
	if err != nil {
		return nil, badRequest("%w", err)
	}
	after, err := q.number("after", 0, 0, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	limit, err := q.number("limit", executionsDefault, 1, executionsMost)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	o, found, err := a.options.Order(ctx, id, after, limit+1)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("order %d: no answer from Postgres within %s; try again", id, orderTimeout)
	case err != nil:
		return nil, err
	case !found:
		return nil, &statusError{http.StatusNotFound, fmt.Errorf("there is no order %d", id)}
	}
	next := 0
	if len(o.Status.Executions) > limit {
		o.Status.Executions, next = o.Status.Executions[:limit], after+limit
	}
	return appendOrder(nil, id, &o, next), nil
}
