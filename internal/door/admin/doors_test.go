package admin

import (
	"bufio"
	"encoding/base64"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
)

// doors sets handlers of the two doors. They answer with the token of the request.
func doors(o *Options) {
	tell := func(door string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := "nobody"
			if grant := auth.GrantOf(r.Context()); grant != nil {
				who = grant.ID
			}
			_, _ = io.WriteString(w, door+" "+who)
		})
	}
	o.WebSocket, o.Binance = tell("ws"), tell("binance")
}

// TestDoorsThatAskForThemselves: WebSocket accepts a token in the request or later; the Binance door has its own keys.
func TestDoorsThatAskForThemselves(t *testing.T) {
	o, add, _ := guarded(t)
	doors(&o)
	s := serve(t, o)
	token, id := add("account:1")
	password := base64.StdEncoding.EncodeToString([]byte(":" + token)) // the header of the browser that shows the page
	for _, one := range []struct {
		method, path string
		headers      []string
		status       int
		body         string
	}{
		{"GET", "/api/v1/ws", nil, 200, "ws nobody"},
		{"GET", "/api/v1/ws", bearer(token), 200, "ws " + id},
		{"GET", "/api/v1/ws", bearer("outc_wrong"), 401, ""},
		{"GET", "/api/v1/ws", []string{"Authorization", "Basic " + password}, 200, "ws nobody"},
		{"GET", "/api/v1/ws", []string{"Authorization", "Digest x"}, 401, ""},
		{"GET", "/api/v1/ws/more", nil, 401, ""},
		{"POST", "/api/v1/ws", nil, 401, ""},
		{"GET", "/binance/api/v3/account", nil, 200, "binance nobody"},
		{"DELETE", "/binance/api/v3/order", bearer("outc_wrong"), 200, "binance nobody"},
		{"GET", "/binance/../metrics", nil, 401, ""},
		{"GET", "/api/v1/symbols", nil, 401, ""},
	} {
		response, body := do(t, s, one.method, one.path, "", one.headers...)
		require.Equal(t, one.status, response.StatusCode, "%s %s", one.method, one.path)
		if one.status == 200 {
			require.Equal(t, one.body, body)
		}
	}
	health, id := add("health")
	_, body := do(t, s, "GET", "/api/v1/ws", "", bearer(health)...)
	require.Equal(t, "ws "+id, body, "each of its methods asks for a right")
}

func TestDoorsThatAreNotThereAreNotFound(t *testing.T) {
	s := serve(t, options())
	for _, path := range []string{"/api/v1/ws", "/binance/api/v3/ping"} {
		response, _ := do(t, s, "GET", path, "")
		require.Equal(t, http.StatusNotFound, response.StatusCode)
	}
}

// TestPagesOfListedOriginsMayUseWhatIsForThem: pages of listed origins may use only these paths. Other pages may
// use none of them.
func TestPagesOfListedOriginsMayUseWhatIsForThem(t *testing.T) {
	const listed, other = "https://desk.example", "https://evil.example"
	o := options()
	doors(&o)
	o.Origins = []string{"http://first.example", listed}
	o.Market = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s := serve(t, o)
	for _, one := range []struct {
		method, path, origin string
		status               int
		allowed              bool
	}{
		{"GET", "/api/v1/symbols", listed, 200, true},
		{"GET", "/api/v1/symbols", other, 200, false}, // the browser does not show the answer to the page
		{"GET", "/api/v1/symbols", "null", 200, false},
		{"GET", "/api/v1/symbols", "*", 200, false},
		{"GET", "/api/v1/symbols", "", 200, false},
		{"POST", "/xml", listed, 200, true},
		{"POST", "/xml", other, 403, false},
		{"POST", "/binance/api/v3/order", listed, 200, true},
		{"POST", "/binance/api/v3/order", other, 403, false},
		{"GET", "/metrics", listed, 200, false},
		{"PUT", "/loglevel", listed, 403, false},
		{"POST", "/admin/halt?sym=A", listed, 403, false},
	} {
		headers := []string{"Sec-Fetch-Site", "cross-site"}
		if one.origin != "" {
			headers = append(headers, "Origin", one.origin)
		}
		response, _ := do(t, s, one.method, one.path, "INFO", headers...)
		require.Equal(t, one.status, response.StatusCode, "%s %s from %s", one.method, one.path, one.origin)
		want := ""
		if one.allowed {
			want = listed
		}
		require.Equal(t, want, response.Header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, response.Header.Get("Access-Control-Allow-Credentials"))
		if isForPages(one.path) {
			require.Equal(t, "Origin", response.Header.Get("Vary"))
		}
	}
}

// TestAPageOfAListedOriginShowsATokenOfItsOwn: a password that the browser has stored for this server does not count.
// The browser would add it by itself to a plain form, which needs no preflight.
func TestAPageOfAListedOriginShowsATokenOfItsOwn(t *testing.T) {
	o, add, _ := guarded(t)
	doors(&o)
	o.Origins = []string{"https://desk.example"}
	s := serve(t, o)
	token, _ := add("account:1")
	stored := []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(":"+token))}
	own := []string{"Origin", "https://desk.example", "Sec-Fetch-Site", "cross-site"}
	for want, headers := range map[int][]string{401: append(stored, own...), 200: append(bearer(token), own...)} {
		response, _ := do(t, s, "POST", "/xml", "<x/>", headers...)
		require.Equal(t, want, response.StatusCode)
	}
	response, _ := do(t, s, "POST", "/xml", "<x/>", stored...)
	require.Equal(t, 200, response.StatusCode)
}

func TestAPreflightIsAnsweredForListedOrigins(t *testing.T) {
	o, _, _ := guarded(t) // a preflight has no token
	doors(&o)
	o.Origins = []string{"https://desk.example"}
	s := serve(t, o)
	ask := func(path, origin string) *http.Response {
		response, _ := do(t, s, "OPTIONS", path, "", "Origin", origin, "Access-Control-Request-Method", "DELETE",
			"Access-Control-Request-Headers", "x-mbx-apikey")
		return response
	}
	for _, path := range []string{"/binance/api/v3/order", "/api/v1/symbols", "/xml"} {
		response := ask(path, "https://desk.example")
		require.Equal(t, http.StatusNoContent, response.StatusCode)
		require.Equal(t, "https://desk.example", response.Header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, response.Header.Get("Access-Control-Allow-Methods"), "DELETE")
		require.Contains(t, response.Header.Get("Access-Control-Allow-Headers"), "X-MBX-APIKEY")
		require.Empty(t, response.Header.Get("Access-Control-Allow-Credentials"))
	}
	for _, origin := range []string{"https://evil.example", "null", "https://desk.example:8443", "http://desk.example"} {
		require.Empty(t, ask("/api/v1/symbols", origin).Header.Get("Access-Control-Allow-Origin"), origin)
	}
	response := ask("/metrics", "https://desk.example")
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"))
	refused, _ := do(t, s, "GET", "/api/v1/symbols", "", "Origin", "https://desk.example")
	require.Equal(t, http.StatusUnauthorized, refused.StatusCode)
	require.Equal(t, "https://desk.example", refused.Header.Get("Access-Control-Allow-Origin"),
		"so that the page sees why")
}

// TestAConnectionThatIsTakenOverLeavesItsPlace: a WebSocket does not count as one of the HTTP connections.
func TestAConnectionThatIsTakenOverLeavesItsPlace(t *testing.T) {
	o := options()
	o.WebSocket = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "taken\n")
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	})
	s := serveBounded(t, 2, o)
	var taken []*visitor
	for range 5 {
		v := s.visit(t).send("GET /api/v1/ws HTTP/1.1\r\nHost: localhost\r\n\r\n")
		line, err := v.r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "taken\n", line)
		taken = append(taken, v)
	}
	require.Zero(t, s.bound.Count())
	for _, v := range taken {
		v.send("still here\n")
		line, err := bufio.NewReader(v.r).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "still here\n", line)
		v.Conn.Close()
	}
	require.Zero(t, s.bound.Count())
	require.Zero(t, s.full.Load())
}
