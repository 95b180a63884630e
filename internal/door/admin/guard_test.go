package admin

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
)

// guarded returns options with tokens, and functions that add a token with a scope and revoke one.
func guarded(t *testing.T) (o Options, add func(scope string) (token, id string), revoke func(id string)) {
	t.Helper()
	dir := t.TempDir()
	tokens, err := auth.OpenTokens(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	o = options()
	o.Tokens, o.Refused, o.Denied = tokens, func() {}, func() {}
	o.Market = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "market") })
	add = func(scope string) (string, string) {
		s, err := auth.ParseScope(scope)
		require.NoError(t, err)
		token, e, err := auth.Add(dir, s, time.Time{}, "")
		require.NoError(t, err)
		require.NoError(t, tokens.Reload())
		return token, e.ID
	}
	return o, add, func(id string) {
		require.NoError(t, auth.Revoke(dir, id))
		require.NoError(t, tokens.Reload())
	}
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// requestOf returns the method and the path of a request for a route.
func requestOf(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.TrimSuffix(path, "{$}")
}

func TestEveryRouteHasARight(t *testing.T) {
	o, _, _ := guarded(t)
	all := Patterns(o)
	require.Greater(t, len(all), 15)
	for _, pattern := range all {
		require.Contains(t, rights, pattern, "without a right it is for admin alone: say so in the table")
	}
}

// TestATokenShutsNobodyElseOut: requests of one token cannot use all connections.
func TestATokenShutsNobodyElseOut(t *testing.T) {
	const most, share = 16, 14
	o, add, _ := guarded(t)
	greedy, _ := add("account:1")
	other, _ := add("account:2")
	begun, answering := make(chan struct{}, most), make(chan struct{})
	o.Answer = telling(func(context.Context, []byte) ([]byte, error) {
		begun <- struct{}{}
		<-answering
		return []byte("<results/>"), nil
	})
	s := serveBounded(t, most, o)
	post := func(token string) *visitor {
		return s.visit(t).send("POST /xml HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token +
			"\r\nContent-Length: 9\r\n\r\n<create/>")
	}
	var under []*visitor
	for range share {
		under = append(under, post(greedy))
		<-begun
	}
	for range most {
		status, closes := post(greedy).answer()
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.True(t, closes)
	}
	s.has(t, share) // the other places are free
	under = append(under, post(other))
	<-begun
	close(answering)
	for _, v := range under {
		status, _ := v.answer()
		require.Equal(t, http.StatusOK, status)
	}
	require.Eventually(t, func() bool {
		s.bound.mu.Lock()
		defer s.bound.mu.Unlock()
		return len(s.bound.bearers) == 0
	}, time.Minute, time.Millisecond)
	status, _ := post(greedy).answer()
	require.Equal(t, http.StatusOK, status)
}

func TestNoRouteAnswersWithoutItsToken(t *testing.T) {
	o, add, revoke := guarded(t)
	s := serve(t, o)
	right, _ := add("admin")
	revoked, id := add("admin")
	revoke(id)
	basic := func(password string) []string {
		return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+password))}
	}
	paths := append(Patterns(o), "GET /none", "DELETE /metrics", "OPTIONS /", "POST /admin/anything", "GET /debug",
		"GET /../metrics")
	for _, pattern := range paths {
		method, path := requestOf(pattern)
		for name, headers := range map[string][]string{
			"none": nil, "empty": {"Authorization", ""}, "another scheme": {"Authorization", "Digest " + right},
			"no scheme": {"Authorization", right}, "in a cookie": {"Cookie", "token=" + right},
		} {
			response, body := do(t, s, method, path, "", headers...)
			require.Equal(t, http.StatusUnauthorized, response.StatusCode, "%s %s", pattern, name)
			require.Equal(t, errNoToken.Error()+"\n", body)
			require.Len(t, response.Header.Values("WWW-Authenticate"), 2)
		}
	}
	for name, headers := range map[string][]string{
		"malformed": bearer("x"), "wrong": bearer(right[:len(right)-4] + "0000"),
		"revoked": bearer(revoked), "wrong, basic": basic("x"), "as user": {
			"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(right+":"))},
	} {
		response, body := do(t, s, "GET", "/healthz", "", headers...)
		require.Equal(t, http.StatusUnauthorized, response.StatusCode, name)
		require.Equal(t, errNoToken.Error()+"\n", body, "all get the same text")
	}
	for _, headers := range [][]string{bearer(right), basic(right), {"Authorization", "bearer  " + right}} {
		response, body := do(t, s, "GET", "/healthz", "", headers...)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "ok\n", body)
	}
}

func TestATokenOpensWhatItsScopeAllows(t *testing.T) {
	o, add, _ := guarded(t)
	var denied atomic.Int64
	o.Denied = func() { denied.Add(1) }
	s := serve(t, o)
	open := map[string][]string{
		"health":    {"GET /healthz", "GET /readyz", "GET /help"},
		"account:1": {"GET /healthz", "GET /readyz", "GET /help", "GET /{$}", "GET /page/", "GET /api/", "POST /xml"},
		"read": {"GET /healthz", "GET /readyz", "GET /help", "GET /{$}", "GET /page/", "GET /api/",
			"GET /api/v1/orders/", "GET /metrics"},
	}
	open["operate"] = append(slices.Clone(open["read"]), "GET /loglevel", "PUT /loglevel", "GET /debug/pprof/",
		"GET /debug/pprof/symbol", "POST /debug/pprof/symbol")
	open["admin"] = append(slices.Clone(open["operate"]), "POST /xml")
	for scope, want := range open {
		token, _ := add(scope)
		for _, pattern := range Patterns(o) {
			if strings.HasSuffix(pattern, "/profile") || strings.HasSuffix(pattern, "/trace") {
				continue // these requests take seconds, and other routes have the same right
			}
			method, path := requestOf(pattern)
			response, _ := do(t, s, method, path, "INFO", bearer(token)...)
			if slices.Contains(want, pattern) {
				require.Equal(t, http.StatusOK, response.StatusCode, "%s %s", scope, pattern)
			} else {
				require.Equal(t, http.StatusForbidden, response.StatusCode, "%s %s", scope, pattern)
			}
		}
		for _, path := range []string{"/api/v1/orders/7", "/api/v1/orders/7/", "//api/v1/orders/7", "/api/v1/./orders/7"} {
			response, body := do(t, s, "GET", path, "", bearer(token)...)
			may := slices.Contains(want, "GET /api/v1/orders/")
			require.Equal(t, may, response.StatusCode == http.StatusOK, "%s %s %s", scope, path, body)
		}
	}
	require.NotZero(t, denied.Load())
}

func TestARouteThatIsNotInTheTableIsForAdminsAlone(t *testing.T) {
	o, add, _ := guarded(t)
	mux := register(o)
	mux.HandleFunc("GET /new", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "new") })
	o.Market = nil
	s := serve(t, o)
	s.Config.Handler = &guard{options: o, routes: mux}
	for scope, want := range map[string]int{"operate": http.StatusForbidden, "read": http.StatusForbidden,
		"account:*": http.StatusForbidden, "admin": http.StatusOK} {
		token, _ := add(scope)
		response, body := do(t, s, "GET", "/new", "", bearer(token)...)
		require.Equal(t, want, response.StatusCode, scope)
		require.Equal(t, want == http.StatusForbidden, body == "the token does not allow this, which needs scope admin\n",
			body)
	}
	for path, scopes := range map[string]string{"/metrics": "read or operate or admin", "/loglevel": "operate or admin"} {
		token, _ := add("account:1")
		_, body := do(t, s, "GET", path, "", bearer(token)...)
		require.Equal(t, "the token does not allow this, which needs scope "+scopes+"\n", body)
	}
}

func TestARevokedTokenEndsWhatLasts(t *testing.T) {
	o, add, revoke := guarded(t)
	begun := make(chan struct{})
	o.Market = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done() // like a request for the stream, which lasts until the client disconnects
	})
	s := serve(t, o)
	token, id := add("account:1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(t, s, "GET", "/api/v1/stream", "", bearer(token)...)
	}()
	<-begun
	revoke(id)
	<-done
}

func TestAHandlerKnowsWhoAsks(t *testing.T) {
	o, add, _ := guarded(t)
	token, id := add("account:7")
	who := make(chan *auth.Grant, 1)
	o.Market = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who <- auth.GrantOf(r.Context()) })
	do(t, serve(t, o), "GET", "/", "", bearer(token)...)
	require.Equal(t, id, (<-who).ID)
}
