package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"outcry/docs"
	"outcry/internal/testing/asyncapi"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/websocket")

// wsConn is a client of JSON over WebSocket. It checks every message that it receives against docs/asyncapi.yaml.
type wsConn struct {
	t       testing.TB
	c       *websocket.Conn
	methods map[string]string // methods of requests by id
	last    int               // the id of the newest request
	events  []string          // events received while waiting for an answer

	inspect  func(text string) // called for each message unless nil
	mu       sync.Mutex        // guards methods, as some tests send and receive at the same time
	incoming chan received     // messages that readOrTimeout's goroutine has read
}

// received is the outcome of a read.
type received struct {
	text []byte
	err  error
}

var described = func() *asyncapi.Description {
	d, err := asyncapi.Parse(docs.AsyncAPI)
	if err != nil {
		panic(err)
	}
	return d
}()

// dialWS connects to a server's HTTP side, with a token if it is not "".
func dialWS(t testing.TB, address, token string) *wsConn {
	t.Helper()
	return dialWSWith(t, address, token, &net.Dialer{})
}

// dialWSWith is dialWS with a given dialer.
func dialWSWith(t testing.TB, address, token string, dialer *net.Dialer) *wsConn {
	t.Helper()
	header := http.Header{}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+address+"/api/v1/ws", &websocket.DialOptions{HTTPHeader: header,
		HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	c.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &wsConn{t: t, c: c, methods: make(map[string]string)}
}

// write sends a text unchanged.
func (w *wsConn) write(text string) {
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
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	require.NoError(w.t, w.c.Write(ctx, websocket.MessageText, []byte(text)))
}

// read returns the next message.
func (w *wsConn) read() string {
	w.t.Helper()
	text, err := w.readFor(patience)
	require.NoError(w.t, err)
	return text
}

// readFor returns the next message, or an error if none arrives within d.
func (w *wsConn) readFor(d time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	_, text, err := w.c.Read(ctx)
	if err != nil {
		return "", err
	}
	require.NoError(w.t, described.Check(w.kindOf(text), text))
	if w.inspect != nil {
		w.inspect(string(text))
	}
	return string(text), nil
}

// kindOf returns the name that docs/asyncapi.yaml gives to a message.
func (w *wsConn) kindOf(text []byte) string {
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

// closed reads until the connection ends, and returns its close code and reason.
func (w *wsConn) closed() (code int, reason string) {
	w.t.Helper()
	for {
		_, err := w.readFor(patience)
		if err == nil {
			continue
		}
		var end websocket.CloseError
		require.ErrorAs(w.t, err, &end)
		return int(end.Code), end.Reason
	}
}

// send sends a request and returns its id. params is JSON.
func (w *wsConn) send(method, params string) int {
	w.t.Helper()
	w.last++
	w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, w.last, method, params))
	return w.last
}

// answer is the answer to a request: a result or an error.
type answer struct {
	ID     int
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
		Data    struct{ Reason string }
	}
	text string
}

// event is a message of a channel.
type event struct {
	Channel string
	Data    map[string]any
}

// next returns the next answer, and keeps the events received before it.
func (w *wsConn) next() (a answer) {
	w.t.Helper()
	for {
		a = answer{text: w.read()}
		if !strings.Contains(a.text, `"method":"subscription"`) {
			require.NoError(w.t, json.Unmarshal([]byte(a.text), &a))
			return a
		}
		w.events = append(w.events, a.text)
	}
}

// call sends a request and returns its answer.
func (w *wsConn) call(method, params string) answer {
	w.t.Helper()
	id := w.send(method, params)
	a := w.next()
	require.Equal(w.t, id, a.ID)
	return a
}

// must is call, but demands a result and returns it.
func (w *wsConn) must(method, params string) map[string]any {
	w.t.Helper()
	a := w.call(method, params)
	require.Nil(w.t, a.Error, "%s", a.text)
	return a.Result
}

// refused is call, but demands an error with this reason.
func (w *wsConn) refused(reason, method, params string) string {
	w.t.Helper()
	a := w.call(method, params)
	require.NotNil(w.t, a.Error, "%s", a.text)
	require.Equal(w.t, reason, a.Error.Data.Reason, "%s", a.text)
	return a.Error.Message
}

// event returns the next event of any channel.
func (w *wsConn) event() (e event) {
	w.t.Helper()
	var text string
	if len(w.events) > 0 {
		text, w.events = w.events[0], w.events[1:]
	} else {
		text = w.read()
	}
	var m struct{ Params event }
	require.NoError(w.t, json.Unmarshal([]byte(text), &m))
	require.NotEmpty(w.t, m.Params.Channel, "%s", text)
	return m.Params
}

// TestWebSocketTranscripts runs each transcript of testdata/websocket against a server of its own.
func TestWebSocketTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/websocket/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			got := newStory(t).tell(strings.Split(string(b), "\n"))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(b), got, "go test ./cmd/outcryd -run WebSocketTranscripts -rewrite writes it")
		})
	}
}

// story is the run of one transcript. Lines that begin with "xml" are sent over XML, lines with ">" over WebSocket.
// After those, lines with "<" are the answers and then the events sorted by channel. "restart" kills and restarts the
// server and reconnects; nothing that was accepted may be lost.
type story struct {
	t     *testing.T
	flags []string
	p     *program
	ws    *wsConn
	out   strings.Builder
}

func newStory(t *testing.T) *story {
	s := &story{t: t}
	s.flags, _ = dataFlags(t)
	s.p = start(t, s.flags...)
	s.ws = dialWS(t, s.p.http, "")
	return s
}

// tell runs a transcript and returns it with the messages actually received.
func (s *story) tell(lines []string) string {
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		switch {
		case strings.HasPrefix(line, "xml "):
			reply := dial(s.t, s.p.xml).must(s.t, strings.TrimPrefix(line, "xml "))
			require.NotContains(s.t, reply, "<error", "%s", line)
			s.line(line)
		case line == "restart":
			s.p.kill()
			s.p = start(s.t, s.flags...)
			s.ws = dialWS(s.t, s.p.http, "")
			s.line(line)
		case strings.HasPrefix(line, "> "):
			s.ws.write(strings.TrimPrefix(line, "> "))
			s.line(line)
			if i < len(lines) && strings.HasPrefix(lines[i], "> ") {
				continue
			}
			want := 0
			for i < len(lines) && strings.HasPrefix(lines[i], "< ") {
				want++
				i++
			}
			s.receive(want)
		default:
			s.line(line)
		}
	}
	return strings.TrimSuffix(s.out.String(), "\n")
}

func (s *story) line(text string) { s.out.WriteString(text + "\n") }

// storyQuiet is how long receive waits for a further message while transcripts are being rewritten.
const storyQuiet = 400 * time.Millisecond

// receive appends the next want messages to the output or, while transcripts are being rewritten, all that arrive.
func (s *story) receive(want int) {
	var all []string
	for *rewrite || len(all) < want {
		wait := patience
		if *rewrite && len(all) > 0 {
			wait = storyQuiet
		}
		text, err := s.ws.readOrTimeout(wait)
		if *rewrite && errors.Is(err, context.DeadlineExceeded) {
			break
		}
		require.NoError(s.t, err)
		all = append(all, text)
	}
	channel := func(text string) string {
		var m struct{ Params struct{ Channel string } }
		require.NoError(s.t, json.Unmarshal([]byte(text), &m))
		return m.Params.Channel
	}
	slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(channel(a), channel(b)) })
	for _, text := range all {
		s.line("< " + withoutTimes(text))
	}
}

// readOrTimeout is readFor, but leaves the connection open if no message arrives.
func (w *wsConn) readOrTimeout(d time.Duration) (string, error) {
	if w.incoming == nil {
		w.incoming = make(chan received)
		go func() {
			for {
				_, text, err := w.c.Read(context.WithoutCancel(w.t.Context()))
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
			r.err = described.Check(w.kindOf(r.text), r.text)
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

// withoutTimes replaces the times in a message, which differ in each run.
func withoutTimes(text string) string {
	return milliseconds.ReplaceAllString(nanoseconds.ReplaceAllString(text, `_ns":"…"`), `_ms":…`)
}
