package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"outcry/internal/auth"
	"outcry/internal/exchange"
	"outcry/internal/operate/remote"
)

// Exchange has the operations of operators, implemented by *engine.Engine. Returned results are durable. An error
// means that it is unknown whether the operation was done.
type Exchange interface {
	Halt(ctx context.Context, sym exchange.Symbol, reason string) (exchange.HaltResult, error)
	Resume(ctx context.Context, sym exchange.Symbol) (exchange.HaltResult, error)
	CancelAll(ctx context.Context, account exchange.AccountID, sym exchange.Symbol) (exchange.CancelAllResult, error)
	Block(ctx context.Context, account exchange.AccountID, reason string) (exchange.BlockResult, error)
	Unblock(ctx context.Context, account exchange.AccountID) (exchange.BlockResult, error)
	// SetSymbolRules and SetAccountRules call change with the current rules, which it modifies. A nil change only
	// reads.
	SetSymbolRules(
		ctx context.Context, sym exchange.Symbol, change func(*exchange.SymbolRules),
	) (exchange.SymbolRulesResult, error)
	SetAccountRules(
		ctx context.Context, account exchange.AccountID, change func(*exchange.AccountRules),
	) (exchange.AccountRulesResult, error)
}

// operateTimeout is how long an operation may take to become durable. If answers wait for Postgres, an operation
// would otherwise wait as long as Postgres is unavailable.
const operateTimeout = 10 * time.Second

// registerOperations adds the paths below /admin/.
func (o *Options) registerOperations(mux *routes) {
	if o.Exchange != nil {
		mux.HandleFunc("POST /admin/halt", o.operation(o.halt, "sym", "reason"))
		mux.HandleFunc("POST /admin/resume", o.operation(o.resume, "sym"))
		mux.HandleFunc("POST /admin/cancel-all", o.operation(o.cancelAll, "account", "sym"))
		o.registerRules(mux)
	}
	if o.Members != nil {
		o.registerChanges(mux)
	}
	if o.Status != nil {
		mux.HandleFunc("GET /admin/status", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, http.StatusOK, o.Status())
		})
	}
}

// refused is an answer with a status other than 200.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string { return r.text }

// operator carries out an operation with the parameters of a request.
type operator func(r *http.Request, q url.Values) (answer any, err error)

// operation returns a handler for an operation. known are the names of its parameters. Unknown and repeated parameters
// are refused, so that a typing error does not widen what is canceled.
func (o *Options) operation(do operator, known ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := any(nil), o.Started()
		if err != nil {
			err = &refused{http.StatusServiceUnavailable, err.Error()}
		}
		var q url.Values
		if err == nil {
			q, err = parameters(r, known)
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), operateTimeout)
			defer cancel()
			answer, err = do(r.WithContext(ctx), q)
		}
		var no *refused
		switch {
		case err == nil:
			answerJSON(w, http.StatusOK, answer)
		case errors.As(err, &no):
			answerJSON(w, no.status, remote.ErrorAnswer{Error: no.text})
		default:
			o.unknown(w, r, err)
		}
	}
}

// unknown answers a request if it is unknown whether its operation was executed.
func (o *Options) unknown(w http.ResponseWriter, r *http.Request, err error) {
	level, text := slog.LevelError, fmt.Sprintf("whether it was done is unknown; repeat the request: %v", err)
	switch gone := r.Context().Err(); {
	case gone != nil: // the client has disconnected, or its token has ended, so it may not see the answer
		level = slog.LevelInfo
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("it was not durable within %s, and its outcome is unknown; repeat the request", operateTimeout)
	}
	o.Log.Log(r.Context(), level, "an operation is not answered", "path", r.URL.Path, who(r), "error", err)
	answerJSON(w, http.StatusServiceUnavailable, remote.ErrorAnswer{Error: text})
}

// who returns the log attributes of a request's sender. The address alone is not enough, because all clients of a proxy
// have the same one.
func who(r *http.Request) slog.Attr {
	attrs := []any{"client", r.RemoteAddr}
	if g := auth.GrantOf(r.Context()); g != nil {
		attrs = append(attrs, "token", g.ID)
	}
	return slog.Group("", attrs...) // an empty name inlines the attributes
}

// parameters parses the parameters of a request. Each must be known, given once and not empty.
func parameters(r *http.Request, known []string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the parameters cannot be read: %v", err)
	}
	left := len(q)
	for _, name := range known {
		switch given, ok := q[name]; {
		case !ok:
			continue
		case len(given) > 1:
			return nil, badRequest("%s is given %d times", name, len(given))
		case given[0] == "":
			return nil, badRequest("%s is empty", name)
		}
		left--
	}
	if left > 0 {
		return nil, badRequest("unknown parameter; the known ones are %q", known)
	}
	return q, nil
}

func badRequest(format string, args ...any) error {
	return &refused{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// symbolOf parses the parameter sym.
func symbolOf(q url.Values) (exchange.Symbol, error) {
	sym, err := exchange.ParseSymbol(q.Get("sym"))
	if err != nil {
		return "", badRequest("%v", err)
	}
	return sym, nil
}

func (o *Options) halt(r *http.Request, q url.Values) (any, error) {
	sym, err := symbolOf(q)
	if err != nil {
		return nil, err
	}
	reason, err := exchange.ParseHaltReason(q.Get("reason"))
	if err != nil {
		return nil, badRequest("%v", err)
	}
	result, err := o.Exchange().Halt(r.Context(), sym, reason)
	if err == nil {
		err = refusalOf(result.Reason, "", "", sym)
	}
	if err != nil {
		return nil, err
	}
	if result.Changed {
		o.Log.Warn("a symbol is halted", "sym", string(sym), "reason", reason, who(r))
	}
	return remote.HaltAnswer{Sym: string(sym), Changed: result.Changed, Halted: haltOf(result.Halt)}, nil
}

func (o *Options) resume(r *http.Request, q url.Values) (any, error) {
	sym, err := symbolOf(q)
	if err != nil {
		return nil, err
	}
	result, err := o.Exchange().Resume(r.Context(), sym)
	if err == nil {
		err = refusalOf(result.Reason, "", "", sym)
	}
	if err != nil {
		return nil, err
	}
	a := remote.HaltAnswer{Sym: string(sym), Changed: result.Changed}
	if result.Changed {
		a.Ended = haltOf(result.Halt)
		o.Log.Warn("a symbol accepts orders again", "sym", string(sym), who(r))
	}
	return a, nil
}

func haltOf(h exchange.Halt) *remote.Halt {
	return &remote.Halt{Time: exchange.Seconds(h.Since), Reason: h.Reason}
}

func (o *Options) cancelAll(r *http.Request, q url.Values) (any, error) {
	account, err := accountOf(q)
	if err != nil {
		return nil, err
	}
	var sym exchange.Symbol
	if q.Has("sym") {
		if sym, err = symbolOf(q); err != nil {
			return nil, err
		}
	}
	result, err := o.Exchange().CancelAll(r.Context(), account, sym)
	if err == nil {
		err = refusalOf(result.Reason, "", account, sym)
	}
	if err != nil {
		return nil, err
	}
	a := canceledOf(account, &result)
	o.Log.Warn("all open orders of an account are canceled",
		"account", string(account), "sym", string(sym), "orders", a.Orders, who(r))
	return a, nil
}

// canceledOf returns the answer to a completed cancel.
func canceledOf(account exchange.AccountID, result *exchange.CancelAllResult) *remote.CancelAllAnswer {
	a := &remote.CancelAllAnswer{Account: string(account), Time: exchange.Seconds(result.Time),
		Symbols: []remote.CanceledIn{}}
	for _, in := range result.Symbols {
		a.Orders += in.Orders
		a.Symbols = append(a.Symbols,
			remote.CanceledIn{Sym: string(in.Symbol), Orders: in.Orders, Shares: in.Shares.String()})
	}
	return a
}

// statusOf maps the reject reasons of operations to HTTP statuses.
var statusOf = map[exchange.RejectReason]int{
	exchange.UnknownSymbol:  http.StatusNotFound,
	exchange.UnknownAccount: http.StatusNotFound,
	exchange.TooManyCancels: http.StatusConflict,
	exchange.NoRoomToCancel: http.StatusServiceUnavailable,
	exchange.NotReadYet:     http.StatusServiceUnavailable,
}

// refusalOf returns the error of a rejected operation, nil if it was not rejected. more is the part of the error's
// text that the reason alone does not determine.
func refusalOf(reason exchange.RejectReason, more string, account exchange.AccountID, sym exchange.Symbol) error {
	if reason == exchange.OK {
		return nil
	}
	if status, known := statusOf[reason]; known {
		r := exchange.Result{Reason: reason, Details: &exchange.RejectDetails{Reason: more}}
		return &refused{status, r.Text(&exchange.Command{Account: account, Symbol: sym})}
	}
	return &refused{http.StatusServiceUnavailable, "refused: " + reason.String()}
}

// answerJSON sends an answer.
func answerJSON(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and finite numbers can always be encoded
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has disconnected
}
