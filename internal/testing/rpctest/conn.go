// Package rpctest has a client of JSON over WebSocket for tests. It checks each message against docs/asyncapi.yaml, and
// keeps the books that a channel's messages describe. Transcripts are conversations in text files.
//
// conn.go has the connection, books.go the books, transcripts.go the conversations.
package rpctest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"outcry/docs"
	"outcry/internal/testing/asyncapi"
)

// Patience is how long a client waits for an expected message. No result depends on its value.
const Patience = 60 * time.Second

// Conn is a client of JSON over WebSocket. It checks every message that it receives against docs/asyncapi.yaml.
type Conn struct {
	Socket  *websocket.Conn
	Events  []string          // events received while waiting for an answer
	Inspect func(text string) // called for each message unless nil

	t        testing.TB
	methods  map[string]string // methods of requests by id
	last     int               // the id of the newest request
	mu       sync.Mutex        // guards methods, as some tests send and receive at the same time
	incoming chan received     // messages that ReadOrTimeout's goroutine has read
}

// received is the outcome of a read.
type received struct {
	text []byte
	err  error
}

// Described returns the description of all messages, docs/asyncapi.yaml. Only tests that use it parse it: the test
// program of cmd/outcryd starts itself several hundred times as outcryd, and a parse takes longer than the rest of its
// initialization.
var Described = sync.OnceValue(func() *asyncapi.Description {
	d, err := asyncapi.Parse(docs.AsyncAPI)
	if err != nil {
		panic(err)
	}
	return d
})

// Dial connects to a server's HTTP side, with a token if it is not "".
func Dial(t testing.TB, address, token string) *Conn {
	t.Helper()
	return DialWith(t, address, token, &net.Dialer{})
}

// DialWith is Dial with a given dialer.
func DialWith(t testing.TB, address, token string, dialer *net.Dialer) *Conn {
	t.Helper()
	header := http.Header{}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+address+"/api/v1/ws", &websocket.DialOptions{HTTPHeader: header,
		HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	c.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &Conn{t: t, Socket: c, methods: make(map[string]string)}
}

// Write sends a text unchanged.
func (w *Conn) Write(text string) {
	w.t.Helper()
	var r struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal([]byte(text), &r) == nil {
		w.mu.Lock()
		w.methods[string(r.ID)] = r.Method
		w.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), Patience)
	defer cancel()
	require.NoError(w.t, w.Socket.Write(ctx, websocket.MessageText, []byte(text)))
}

// Read returns the next message.
func (w *Conn) Read() string {
	w.t.Helper()
	text, err := w.readFor(Patience)
	require.NoError(w.t, err)
	return text
}

// readFor returns the next message, or an error if none arrives within d.
func (w *Conn) readFor(d time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	_, text, err := w.Socket.Read(ctx)
	if err != nil {
		return "", err
	}
	require.NoError(w.t, Described().Check(w.kindOf(text), text))
	if w.Inspect != nil {
		w.Inspect(string(text))
	}
	return string(text), nil
}

// kindOf returns the name that docs/asyncapi.yaml gives to a message.
func (w *Conn) kindOf(text []byte) string {
	var m struct {
		ID     json.RawMessage
		Error  *struct{}
		Method string
		Params struct{ Channel string }
	}
	require.NoError(w.t, json.Unmarshal(text, &m), "%s", text)
	switch {
	case m.Method != "":
		kind, _, _ := strings.Cut(m.Params.Channel, ".")
		return kind + ".event"
	case m.Error != nil:
		return "error"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.methods[string(m.ID)] + ".result"
}

// Closed reads until the connection ends, and returns its close code and reason.
func (w *Conn) Closed() (code int, reason string) {
	w.t.Helper()
	for {
		_, err := w.readFor(Patience)
		if err == nil {
			continue
		}
		var end websocket.CloseError
		require.ErrorAs(w.t, err, &end)
		return int(end.Code), end.Reason
	}
}

// Send sends a request and returns its id. params is JSON.
func (w *Conn) Send(method, params string) int {
	w.t.Helper()
	w.last++
	w.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, w.last, method, params))
	return w.last
}

// Answer is the answer to a request: a result or an error.
type Answer struct {
	ID     int
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
		Data    struct{ Reason string }
	}
	Text string `json:"-"` // the whole message
}

// Event is a message of a channel.
type Event struct {
	Channel string
	Data    map[string]any
}

// Next returns the next answer, and keeps the events received before it.
func (w *Conn) Next() (a Answer) {
	w.t.Helper()
	for {
		a = Answer{Text: w.Read()}
		if !strings.Contains(a.Text, `"method":"subscription"`) {
			require.NoError(w.t, json.Unmarshal([]byte(a.Text), &a))
			return a
		}
		w.Events = append(w.Events, a.Text)
	}
}

// Call sends a request and returns its answer.
func (w *Conn) Call(method, params string) Answer {
	w.t.Helper()
	id := w.Send(method, params)
	a := w.Next()
	require.Equal(w.t, id, a.ID)
	return a
}

// Must is Call, but demands a result and returns it.
func (w *Conn) Must(method, params string) map[string]any {
	w.t.Helper()
	a := w.Call(method, params)
	require.Nil(w.t, a.Error, "%s", a.Text)
	return a.Result
}

// Refused is Call, but demands an error with this reason, and returns its message.
func (w *Conn) Refused(reason, method, params string) string {
	w.t.Helper()
	a := w.Call(method, params)
	require.NotNil(w.t, a.Error, "%s", a.Text)
	require.Equal(w.t, reason, a.Error.Data.Reason, "%s", a.Text)
	return a.Error.Message
}

// Event returns the next event of any channel.
func (w *Conn) Event() (e Event) {
	w.t.Helper()
	var text string
	if len(w.Events) > 0 {
		text, w.Events = w.Events[0], w.Events[1:]
	} else {
		text = w.Read()
	}
	var m struct{ Params Event }
	require.NoError(w.t, json.Unmarshal([]byte(text), &m))
	require.NotEmpty(w.t, m.Params.Channel, "%s", text)
	return m.Params
}

// ReadOrTimeout returns the next message, or an error if none arrives within d. The connection stays open. After its
// first call, other methods must not read.
func (w *Conn) ReadOrTimeout(d time.Duration) (string, error) {
	if w.incoming == nil {
		w.incoming = make(chan received)
		go func() {
			for {
				_, text, err := w.Socket.Read(context.WithoutCancel(w.t.Context()))
				select {
				case w.incoming <- received{text, err}:
				case <-w.t.Context().Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
	}
	select {
	case r := <-w.incoming:
		if r.err == nil {
			r.err = Described().Check(w.kindOf(r.text), r.text)
		}
		return string(r.text), r.err
	case <-time.After(d):
		return "", context.DeadlineExceeded
	}
}

var (
	nanoseconds  = regexp.MustCompile(`_ns":"\d+"`)
	milliseconds = regexp.MustCompile(`_ms":\d+`)
)

// WithoutTimes replaces the times in a message, which differ in each run.
func WithoutTimes(text string) string {
	return milliseconds.ReplaceAllString(nanoseconds.ReplaceAllString(text, `_ns":"…"`), `_ms":…`)
}
