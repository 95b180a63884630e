package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// options returns the options of an exchange that is ready and sends each frame back.
func options() Options {
	return Options{
		Gatherer: prometheus.NewRegistry(),
		Ready:    func() error { return nil },
		Started:  func() error { return nil },
		Admit:    func(context.Context, []byte, int) (func(), error) { return func() {}, nil },
		Answer: telling(func(_ context.Context, xml []byte) ([]byte, error) {
			return fmt.Appendf(nil, "<results>%s</results>", xml), nil
		}),
		Refuse:        func(text string) []byte { return []byte("<results><error>" + text + "</error></results>") },
		FrameBytesMax: 1000,
		Log:           slog.New(slog.DiscardHandler),
		LogLevel:      new(slog.LevelVar),
	}
}

// telling makes an Options.Answer of a function that returns the reply.
func telling(answer func(context.Context, []byte) ([]byte, error)) func(context.Context, []byte, func([]byte)) error {
	return func(ctx context.Context, xml []byte, tell func(reply []byte)) error {
		reply, err := answer(ctx, xml)
		if err == nil {
			tell(reply)
		}
		return err
	}
}

// serve starts a server on a free port.
func serve(t *testing.T, o Options) *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config = NewServer(o)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// do sends a request and returns the status and the body of its answer.
func do(t *testing.T, s *httptest.Server, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(text)
}

func TestPathsAnswerAsTheyShould(t *testing.T) {
	s := serve(t, options())
	for _, test := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/", 200, index},
		{"GET", "/help", 200, index},
		{"GET", "/api/v1/symbols", 404, "404 page not found\n"},
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/readyz", 200, "ready\n"},
		{"POST", "/readyz", 405, "Method Not Allowed\n"},
		{"GET", "/xml", 405, "Method Not Allowed\n"},
		{"PUT", "/xml", 405, "Method Not Allowed\n"},
		{"POST", "/xml", 200, "<results></results>"},
		{"GET", "/nothing", 404, "404 page not found\n"},
		{"GET", "/debug/pprof/symbol", 200, "num_symbols: 1\n"},
	} {
		response, body := do(t, s, test.method, test.path, "")
		require.Equal(t, test.status, response.StatusCode, "%s %s", test.method, test.path)
		require.Equal(t, test.body, body, "%s %s", test.method, test.path)
	}
	_, body := do(t, s, "GET", "/debug/pprof/", "")
	require.Contains(t, body, "goroutine")
	for _, path := range []string{"/metrics", "/debug/pprof/heap", "/debug/pprof/trace?seconds=0.01"} {
		response, _ := do(t, s, "GET", path, "")
		require.Equal(t, 200, response.StatusCode, path)
	}
}

func TestTheMarketIsServedWhereThereIsOne(t *testing.T) {
	o := options()
	o.Market = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "market ", r.URL) })
	s := serve(t, o)
	for _, path := range []string{"/", "/page/x.js", "/api/v1/book/S?depth=3"} {
		response, body := do(t, s, "GET", path, "")
		require.Equal(t, 200, response.StatusCode)
		require.Equal(t, "market "+path, body)
		response, _ = do(t, s, "POST", path, "")
		require.Equal(t, 405, response.StatusCode, path)
		response, _ = do(t, s, "GET", path, "", "Host", "elsewhere.example")
		require.Equal(t, 403, response.StatusCode, "the rules for browsers hold here too")
	}
	_, body := do(t, s, "GET", "/help", "")
	require.Equal(t, index, body)
	response, _ := do(t, s, "GET", "/nothing", "")
	require.Equal(t, 404, response.StatusCode)
}

func TestMetricsShowWhatIsRegistered(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "outcry_frames_total", Help: "Frames."})
	require.NoError(t, registry.Register(counter))
	counter.Add(7)
	o := options()
	o.Gatherer = registry
	_, body := do(t, serve(t, o), "GET", "/metrics", "")
	require.Contains(t, body,
		"# HELP outcry_frames_total Frames.\n# TYPE outcry_frames_total counter\noutcry_frames_total 7\n")
}

// TestTroubleOverHTTPIsOneMessage makes a scrape and a handler fail. The texts of net/http and promhttp differ each
// time. They must not be the log's message, because the log counts repeated lines by their message.
func TestTroubleOverHTTPIsOneMessage(t *testing.T) {
	var log bytes.Buffer
	o := options()
	o.Log = slog.New(slog.NewJSONHandler(&log, nil))
	o.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return nil, errors.New("the scrape failed")
	})
	o.Ready = func() error { panic("no answer") }
	s := serve(t, o)
	response, _ := do(t, s, "GET", "/metrics", "")
	require.Equal(t, 500, response.StatusCode)
	_, err := s.Client().Get(s.URL + "/readyz")
	require.Error(t, err)
	s.Close() // after this the log is complete
	var logged []string
	for line := range strings.Lines(log.String()) {
		var l struct{ Level, Msg, Error string }
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		require.Equal(t, "WARN the HTTP side reports an error", l.Level+" "+l.Msg)
		logged = append(logged, l.Error)
	}
	require.GreaterOrEqual(t, len(logged), 2, "the client may try again")
	require.Contains(t, logged[0], "the scrape failed")
	require.Contains(t, logged[len(logged)-1], "http: panic serving 127.0.0.1:")
}

func TestXMLIsAnsweredWithoutRoomForOrders(t *testing.T) {
	o := options()
	o.Ready = func() error { return errors.New("no room") }
	s := serve(t, o)
	response, _ := do(t, s, "GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	_, body := do(t, s, "POST", "/xml", "x")
	require.Equal(t, "<results>x</results>", body, "queries and cancels still work")
}

func TestReadyzSaysWhyNot(t *testing.T) {
	var why error
	o := options()
	o.Ready = func() error { return why }
	o.Started = o.Ready
	o.Answer = telling(func(context.Context, []byte) ([]byte, error) {
		return nil, errors.New("asked although not ready")
	})
	s := serve(t, o)
	why = errors.New("waiting for Postgres")
	response, body := do(t, s, "GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "waiting for Postgres\n", body)

	response, body = do(t, s, "POST", "/xml", "<create/>")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "<results><error>waiting for Postgres</error></results>", body)

	response, _ = do(t, s, "GET", "/healthz", "")
	require.Equal(t, http.StatusOK, response.StatusCode, "alive all the same")
}

func TestPostXMLAnswersAsTCPDoes(t *testing.T) {
	o := options()
	o.Answer = telling(func(_ context.Context, xml []byte) ([]byte, error) {
		if string(xml) != `<transactions id="1"/>` {
			return o.Refuse("malformed XML"), nil
		}
		return []byte("<results/>"), nil
	})
	s := serve(t, o)
	for body, want := range map[string]string{
		`<transactions id="1"/>`: "<results/>",
		"no XML":                 "<results><error>malformed XML</error></results>",
		"":                       "<results><error>malformed XML</error></results>",
	} {
		response, got := do(t, s, "POST", "/xml", body)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "text/xml; charset=utf-8", response.Header.Get("Content-Type"))
		require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
		require.EqualValues(t, len(want), response.ContentLength)
		require.Equal(t, want, got)
	}
}

func TestPostXMLTakesFramesUpToTheLimit(t *testing.T) {
	s := serve(t, options())
	xml := strings.Repeat("x", 1000)
	response, body := do(t, s, "POST", "/xml", xml)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "<results>"+xml+"</results>", body)

	response, body = do(t, s, "POST", "/xml", xml+"x")
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	require.Equal(t, "<results><error>a frame is over the limit of 1000 bytes</error></results>", body)
}

func TestPostXMLTellsNothingWhenTheExchangeFails(t *testing.T) {
	var log bytes.Buffer
	o := options()
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Answer = telling(func(context.Context, []byte) ([]byte, error) {
		return nil, errors.New("journal: the disk is gone")
	})
	s := serve(t, o)
	response, body := do(t, s, "POST", "/xml", "<create/>")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Contains(t, body, "<results><error>the exchange is stopping")
	s.Close() // after this the log is complete
	require.Contains(t, log.String(), "the disk is gone")
}

func TestPostXMLIsReadOnlyWhereThereIsMemory(t *testing.T) {
	const full, most = 100_000, 200_000
	held := 0
	o := options()
	o.Admit = func(_ context.Context, _ []byte, frameBytes int) (func(), error) {
		if frameBytes > full {
			return nil, fmt.Errorf("no memory for %d bytes", frameBytes)
		}
		held += frameBytes
		return func() { held -= frameBytes }, nil
	}
	o.Answer = telling(func(_ context.Context, xml []byte) ([]byte, error) {
		if len(xml) > smallBodyMax {
			require.Equal(t, len(xml), held, "until it is done")
		}
		return []byte("<results/>"), nil
	})
	o.FrameBytesMax = most
	h := Handler(o)
	for _, c := range []struct {
		body io.Reader
		code int
		want string
	}{
		{strings.NewReader(strings.Repeat("x", full)), http.StatusOK, "<results/>"},
		{strings.NewReader(strings.Repeat("x", full+1)), http.StatusServiceUnavailable,
			"<results><error>no memory for 100001 bytes</error></results>"},
		// A body without a Content-Length that exceeds smallBodyMax reserves memory for the maximum length.
		{io.MultiReader(strings.NewReader(strings.Repeat("x", smallBodyMax+1))), http.StatusServiceUnavailable,
			"<results><error>no memory for 200000 bytes</error></results>"},
		{io.MultiReader(strings.NewReader("x")), http.StatusOK, "<results/>"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/xml", c.body))
		require.Equal(t, c.code, w.Code)
		require.Equal(t, c.want, w.Body.String())
		require.Zero(t, held)
	}
}

func TestPostXMLTellsThatNothingWasDone(t *testing.T) {
	o := options()
	o.Busy = errors.New("busy")
	o.Answer = func(context.Context, []byte, func([]byte)) error { return fmt.Errorf("session: %w", o.Busy) }
	response, body := do(t, serve(t, o), "POST", "/xml", "<create/>")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "<results><error>too many requests are in progress; nothing was done, try again</error></results>",
		body)
}

func TestABodyThatBreaksOffIsNotDone(t *testing.T) {
	o := options()
	o.Answer = telling(func(context.Context, []byte) ([]byte, error) {
		panic("half a frame was done")
	})
	s := serve(t, o)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, "POST /xml HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n<create/>")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
}

func TestPagesFromElsewhereAreRefused(t *testing.T) {
	s := serve(t, options())
	own := s.Listener.Addr().String()
	_, port, err := net.SplitHostPort(own)
	require.NoError(t, err)
	for _, test := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"no browser", nil, 200},
		{"own page", []string{"Origin", "http://" + own}, 200},
		{"own page, by the newer header", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"localhost", []string{"Host", "localhost:" + port, "Origin", "http://localhost:" + port}, 200},
		{"foreign page", []string{"Origin", "https://elsewhere.example"}, 403},
		{"foreign page, by the newer header", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"sandboxed page", []string{"Origin", "null"}, 403},
		{"a name that was made to point here",
			[]string{"Host", "elsewhere.example:" + port, "Origin", "http://elsewhere.example:" + port}, 403},
	} {
		response, body := do(t, s, "POST", "/xml", "<create/>", test.headers...)
		require.Equal(t, test.status, response.StatusCode, "%s: %s", test.name, body)
	}
	response, body := do(t, s, "GET", "/debug/pprof/heap", "", "Host", "elsewhere.example")
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Equal(t, "host \"elsewhere.example\" is not a name of this server; use its address or localhost, or "+
		"name it in --http-hosts\n", body)
}

func TestHostsAreAddressesOrLocalhost(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "localhost": true, "LOCALHOST:8080": true, "127.0.0.1": true, "127.0.0.1:8080": true,
		"[::1]": true, "[::1]:8080": true, "192.168.0.7:80": true,
		"elsewhere.example": false, "elsewhere.example:8080": false, "localhost.elsewhere.example": false,
		"127.0.0.1.elsewhere.example": false, "1": false,
	} {
		require.Equal(t, want, isAddress(host), host)
	}
}

// TestNamesAreTakenThatTheServerGoesBy: the server's own names are accepted on any address. Other names are refused
// even at a container's address, because another site may point its name there.
func TestNamesAreTakenThatTheServerGoesBy(t *testing.T) {
	named := options()
	named.Hosts = []string{"exchange.example", "outcryd"}
	tokens, add, _ := guarded(t)
	token, _ := add("admin")
	loopback, outside := net.IPv4(127, 0, 0, 1), net.IPv4(172, 18, 0, 5)
	for _, c := range []struct {
		options Options
		local   net.IP
		host    string
		status  int
	}{
		{options(), outside, "exchange.example", 403}, {options(), outside, "evil.example:8080", 403},
		{options(), loopback, "evil.example", 403},
		{options(), outside, "172.18.0.5:8080", 200}, {options(), outside, "[fd00::1]:8080", 200},
		{options(), outside, "localhost:8080", 200}, {options(), outside, "", 200},
		{named, outside, "exchange.example", 200}, {named, outside, "Exchange.Example:8080", 200},
		{named, loopback, "outcryd:8080", 200},
		{named, outside, "evil.example", 403}, {named, outside, "sub.exchange.example", 403},
		{named, outside, "exchange.example.", 403},
		{tokens, outside, "exchange.example", 200}, {tokens, loopback, "exchange.example", 403},
	} {
		for _, route := range []string{"GET /healthz", "POST /xml", "GET /debug/pprof/heap", "PUT /loglevel"} {
			method, path, _ := strings.Cut(route, " ")
			w := httptest.NewRecorder()
			r := httptest.NewRequest(method, "http://x"+path, strings.NewReader("INFO"))
			r.Host = c.host
			r.Header.Set("Authorization", "Bearer "+token)
			local := &net.TCPAddr{IP: c.local, Port: 8080}
			Handler(c.options).ServeHTTP(w,
				r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local))))
			require.Equal(t, c.status, w.Code, "%s on %s for %q", route, c.local, c.host)
		}
	}
}
