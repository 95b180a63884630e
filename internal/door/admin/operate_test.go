package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/operate/remote"
)

// fakeExchange answers each operation with a result that a test sets.
type fakeExchange struct {
	halt     exchange.HaltResult
	canceled exchange.CancelAllResult
	err      error

	block   exchange.BlockResult
	symbol  exchange.SymbolRulesResult // rules before the change
	account exchange.AccountRulesResult
}

func (f *fakeExchange) Halt(context.Context, exchange.Symbol, string) (exchange.HaltResult, error) {
	return f.halt, f.err
}

func (f *fakeExchange) Resume(context.Context, exchange.Symbol) (exchange.HaltResult, error) {
	return f.halt, f.err
}

func (f *fakeExchange) CancelAll(
	context.Context, exchange.AccountID, exchange.Symbol,
) (exchange.CancelAllResult, error) {
	return f.canceled, f.err
}

func (f *fakeExchange) Block(context.Context, exchange.AccountID, string) (exchange.BlockResult, error) {
	return f.block, f.err
}

func (f *fakeExchange) Unblock(context.Context, exchange.AccountID) (exchange.BlockResult, error) {
	return f.block, f.err
}

func (f *fakeExchange) SetSymbolRules(
	_ context.Context, _ exchange.Symbol, change func(*exchange.SymbolRules),
) (exchange.SymbolRulesResult, error) {
	r := f.symbol
	if change != nil && r.Reason == exchange.OK {
		change(&r.Rules)
		r.Changed = r.Rules != f.symbol.Rules
	}
	return r, f.err
}

func (f *fakeExchange) SetAccountRules(
	_ context.Context, _ exchange.AccountID, change func(*exchange.AccountRules),
) (exchange.AccountRulesResult, error) {
	r := f.account
	if change != nil && r.Reason == exchange.OK {
		change(&r.Rules)
		r.Changed = r.Rules != f.account.Rules
	}
	return r, f.err
}

// TestOperationsAnswerWhatTheyCameTo checks the answer and the log for each possible result of the exchange.
func TestOperationsAnswerWhatTheyCameTo(t *testing.T) {
	var log bytes.Buffer
	o, x := options(), new(fakeExchange)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Exchange = func() Exchange { return x }
	o.Status = func() remote.Status { return remote.Status{Version: "v"} }
	s := serve(t, o)
	news := exchange.Halt{Since: 7*exchange.Second + 5, Reason: "news"}
	for _, c := range []struct {
		came   fakeExchange
		path   string
		status int
		want   string
		logged string
	}{
		{fakeExchange{halt: exchange.HaltResult{Changed: true, Halt: news}}, "halt?sym=S&reason=news", 200,
			`{"sym":"S","changed":true,"halted":{"time":7,"reason":"news"}}`, "a symbol is halted"},
		{fakeExchange{halt: exchange.HaltResult{Halt: news}}, "halt?sym=S", 200,
			`{"sym":"S","changed":false,"halted":{"time":7,"reason":"news"}}`, ""},
		{fakeExchange{halt: exchange.HaltResult{Changed: true, Halt: news}}, "resume?sym=S", 200,
			`{"sym":"S","changed":true,"ended":{"time":7,"reason":"news"}}`, "accepts orders again"},
		{fakeExchange{}, "resume?sym=S", 200, `{"sym":"S","changed":false}`, ""},
		{fakeExchange{canceled: exchange.CancelAllResult{Time: 9*exchange.Second + 1}}, "cancel-all?account=1", 200,
			`{"account":"1","time":9,"orders":0,"symbols":[]}`, "orders=0"},
		{fakeExchange{canceled: exchange.CancelAllResult{Time: 9*exchange.Second + 1,
			Symbols: []exchange.CanceledIn{{Symbol: "A", Orders: 2, Shares: exchange.Shares(15e7).Position()},
				{Symbol: "B", Orders: 1, Shares: exchange.Shares(1e8).Position()}}}},
			"cancel-all?account=1&sym=A", 200,
			`{"account":"1","time":9,"orders":3,"symbols":[` +
				`{"sym":"A","orders":2,"shares":"1.5"},{"sym":"B","orders":1,"shares":"1"}]}`, "orders=3"},
		{fakeExchange{halt: exchange.HaltResult{Reason: exchange.NoRoomToCancel}}, "halt?sym=S", 503,
			`{"error":"the disk has no room for the journal, and the reserve is used up; nothing is changed"}`, ""},
		{fakeExchange{halt: exchange.HaltResult{Reason: exchange.UnknownSymbol}}, "resume?sym=S", 404,
			`{"error":"there is no symbol S"}`, ""},
		{fakeExchange{canceled: exchange.CancelAllResult{Reason: exchange.UnknownAccount}}, "cancel-all?account=1", 404,
			`{"error":"there is no account 1"}`, ""},
		{fakeExchange{canceled: exchange.CancelAllResult{Reason: exchange.NoRoom}}, "cancel-all?account=1", 503,
			`{"error":"refused: no_room"}`, ""},
		{fakeExchange{err: errors.New("the disk is gone")}, "cancel-all?account=1", 503,
			`{"error":"whether it was done is unknown; repeat the request: the disk is gone"}`,
			"level=ERROR msg=\"an operation is not answered\""},
		{fakeExchange{err: fmt.Errorf("engine: %w", context.DeadlineExceeded)}, "resume?sym=S", 503,
			`{"error":"it was not durable within 10s, and its outcome is unknown; repeat the request"}`,
			"level=ERROR msg=\"an operation is not answered\""},
	} {
		*x = c.came
		log.Reset()
		response, body := do(t, s, "POST", "/admin/"+c.path, "")
		require.Equal(t, c.status, response.StatusCode, c.path)
		require.Equal(t, c.want+"\n", body)
		require.Equal(t, "application/json", response.Header.Get("Content-Type"))
		require.Equal(t, c.logged != "", log.Len() > 0)
		require.Contains(t, log.String(), c.logged)
	}
	_, body := do(t, s, "GET", "/admin/status", "")
	require.Equal(t, `{"version":"v","uptime_seconds":0,"ready":false,"memory_bytes":0}`+"\n", body)
}

func TestOperationsWaitForTheStart(t *testing.T) {
	o := options()
	o.Exchange = func() Exchange { panic("asked although not started") }
	o.Started = func() error { return errors.New("waiting for Postgres") }
	response, body := do(t, serve(t, o), "POST", "/admin/halt?sym=S", "")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, `{"error":"waiting for Postgres"}`+"\n", body)
}

// waiting is an exchange whose operations last until the caller's context ends.
type waiting struct {
	fakeExchange
	asked chan struct{}
}

func (x *waiting) Halt(ctx context.Context, _ exchange.Symbol, _ string) (exchange.HaltResult, error) {
	close(x.asked)
	<-ctx.Done()
	return exchange.HaltResult{}, ctx.Err()
}

// TestAClientThatHasGoneIsNoErrorOfTheExchange: if a client disconnects, no error is logged that would alert an
// operator.
func TestAClientThatHasGoneIsNoErrorOfTheExchange(t *testing.T) {
	var log bytes.Buffer
	o, x := options(), &waiting{asked: make(chan struct{})}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Exchange = func() Exchange { return x }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Handler(o).ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/admin/halt?sym=S", nil))
	}()
	<-x.asked
	cancel()
	<-done
	require.Contains(t, log.String(), "level=INFO msg=\"an operation is not answered\"")
}

// TestTheLogSaysWhoseTokenDidAnOperation: the log has the token's ID, because all clients of a proxy have its
// address.
func TestTheLogSaysWhoseTokenDidAnOperation(t *testing.T) {
	var log bytes.Buffer
	o, add, _ := guarded(t)
	token, id := add("operate")
	x := &fakeExchange{halt: exchange.HaltResult{Changed: true}, block: exchange.BlockResult{Changed: true}}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Exchange = func() Exchange { return x }
	s := serve(t, o)
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/admin/halt?sym=S", ""}, {"POST", "/admin/resume?sym=S", ""},
		{"POST", "/admin/cancel-all?account=1", ""}, {"PUT", "/loglevel", "INFO"},
		{"POST", "/admin/block?account=1", ""}, {"POST", "/admin/unblock?account=1", ""},
		{"POST", "/admin/symbol?sym=S&tick=5", ""}, {"POST", "/admin/limits?account=1&open=5", ""},
	} {
		log.Reset()
		response, body := do(t, s, r.method, r.path, r.body, bearer(token)...)
		require.Equal(t, http.StatusOK, response.StatusCode, body)
		require.Regexp(t, `client=127\.0\.0\.1:\d+ token=`+id+"\n", log.String(), r.path)
		require.NotContains(t, log.String(), token)
	}
	x.err = errors.New("the disk is gone")
	do(t, s, "POST", "/admin/halt?sym=S", "", bearer(token)...)
	require.Contains(t, log.String(), "token="+id+" error=")
}
