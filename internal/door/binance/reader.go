package binance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"outcry/internal/door"
	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/view/market"
)

// streamsMax is the maximum number of streams of a connection.
const streamsMax = 1024

// slowMax bounds how long the server stops reading from a connection that exceeds its rate.
const slowMax = time.Second

// reader is a connection that reads market streams. Only its own goroutine uses its fields, except conn.
type reader struct {
	door    *Door
	conn    *websocket.Conn
	caller  *door.Caller   // nil on a standby
	wrapped bool           // events are sent in the form of /stream, with the stream's name
	subs    []subscription // subscriptions in the order in which they were made
}

// subscription is a stream that a reader reads.
type subscription struct {
	streamName
	leave func()
}

// serveStreams opens a connection for market streams, at /ws and /stream. The path or the query may name streams;
// the client subscribes to others over the connection.
func (d *Door) serveStreams(w http.ResponseWriter, r *http.Request, path string) {
	names, wrapped := r.URL.Query().Get("streams"), path == "/stream"
	if !wrapped {
		names = strings.TrimPrefix(strings.TrimPrefix(path, "/ws"), "/")
	}
	if problem := d.mayLook(); problem != nil {
		d.refuse(w, problem)
		return
	}
	d.open(w, r, func(conn *websocket.Conn, caller *door.Caller) {
		reader := &reader{door: d, conn: conn, caller: caller, wrapped: wrapped}
		conn.OnSlow(func() string { return "too slow for its streams" })
		reader.serve(strings.Split(names, "/"))
	})
}

// open opens a connection. While there is no market data it refuses the connection, which clients retry, whereas they
// treat an error to a later request as final. serve serves the connection until Read returns an error.
func (d *Door) open(w http.ResponseWriter, r *http.Request, serve func(*websocket.Conn, *door.Caller)) {
	if feed := d.options.Feed(); feed == nil || feed.Err() != nil {
		d.refuse(w, errNow)
		return
	}
	d.options.Sockets.Serve(w, r, func(conn *websocket.Conn) (func(), error) {
		server := d.options.Sessions()
		if server == nil {
			return func() { serve(conn, nil) }, nil
		}
		caller, err := server.Enter(conn.RemoteAddr(), nil, conn.Abort)
		if err != nil {
			return nil, err
		}
		return func() {
			defer caller.Leave()
			serve(conn, caller)
		}, nil
	})
}

// slowDown waits if a connection has exceeded its rate.
func slowDown(caller *door.Caller) {
	if caller == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), slowMax) // the client may have disconnected unnoticed
	defer cancel()
	caller.SlowDown(ctx, 1)
}

// serve subscribes to the streams that the path names, and then serves the connection's requests.
func (r *reader) serve(named []string) {
	defer r.leave()
	for _, name := range named {
		if !strings.Contains(name, "@") {
			continue // name is a number, which clients add to distinguish their connections
		}
		if problem := r.subscribe([]string{name}, func() error { return nil }); problem != "" {
			r.conn.Close(websocket.CodeUnsupported, problem)
			return
		}
	}
	for {
		text, err := r.conn.Read()
		if err != nil {
			r.end(err)
			return
		}
		slowDown(r.caller)
		if !r.take(text) {
			return
		}
	}
}

// end closes a connection with a reason if the server is the one that ends it.
func (r *reader) end(err error) {
	if errors.Is(err, websocket.ErrDraining) {
		r.conn.Close(websocket.CodeGoingAway, "the exchange stops")
	}
}

// leave ends all subscriptions.
func (r *reader) leave() {
	for _, s := range r.subs {
		s.leave()
	}
}

// streamRequest is a request over the connection.
type streamRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	ID     json.RawMessage `json:"id"`
}

// take handles a message. It returns false if the connection has ended.
func (r *reader) take(text []byte) bool {
	var q streamRequest
	if err := json.Unmarshal(text, &q); err != nil || !isID(q.ID) {
		return r.answer(nil, "", "Invalid request: not a JSON object with method, params and id")
	}
	var names []string
	if len(q.Params) > 0 && json.Unmarshal(q.Params, &names) != nil {
		return r.answer(q.ID, "", "Invalid request: params must be a list of the names of streams")
	}
	switch q.Method {
	case "SUBSCRIBE":
		sent := true
		problem := r.subscribe(names, func() error {
			sent = r.answer(q.ID, "null", "")
			return nil
		})
		if problem != "" {
			return r.answer(q.ID, "", problem)
		}
		return sent
	case "UNSUBSCRIBE":
		r.unsubscribe(names)
		return r.answer(q.ID, "null", "")
	case "LIST_SUBSCRIPTIONS":
		list := jsontext.List(nil, r.subs, func(b []byte, s *subscription) []byte { return jsontext.AppendWord(b, s.text) })
		return r.answer(q.ID, string(list), "")
	}
	return r.answer(q.ID, "", fmt.Sprintf("Invalid request: unknown method %.40q", q.Method))
}

// idBytesMax is the maximum length of a request's id.
const idBytesMax = 64

// isID reports whether a value is a valid request id: a number or a string. The answer repeats it unchanged.
func isID(id json.RawMessage) bool {
	if len(id) == 0 || string(id) == "null" {
		return true
	}
	return len(id) <= idBytesMax && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// answer answers a request with a result or, if result is empty, with a problem. It returns false if the connection has
// ended.
func (r *reader) answer(id json.RawMessage, result, problem string) bool {
	b := []byte{'{'}
	if result != "" {
		b = jsontext.Raw(b, "result", result)
	} else {
		b = jsontext.Number(append(jsontext.Name(b, "error"), '{'), "code", 2)
		b = append(jsontext.Text(b, "msg", problem), '}')
	}
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	b = append(jsontext.Raw(b, "id", id), '}')
	return r.conn.Answer(websocket.NewFrame(b)) == nil
}

// subscribe adds streams; their events follow the message that answer sends. It adds either all of them, or none and
// returns the problem.
func (r *reader) subscribe(texts []string, answer func() error) (problem string) {
	var fresh []streamName
	for _, text := range texts {
		n, ok := parseStream(text)
		if !ok {
			return fmt.Sprintf("Invalid request: there is no stream %.80q", text)
		}
		if r.find(text) < 0 && !slices.ContainsFunc(fresh, func(m streamName) bool { return m.text == text }) {
			fresh = append(fresh, n)
		}
	}
	if len(r.subs)+len(fresh) > streamsMax {
		return fmt.Sprintf("Invalid request: a connection may read %d streams", streamsMax)
	}
	feed := r.door.options.Feed()
	if err := r.await(); err != nil {
		r.conn.Close(websocket.CodeGoingAway, errNow.Text) // so that the client connects again
		return ""
	}
	for _, n := range fresh {
		if err := feed.View(n.symbol, func(*market.Market) {}); err != nil {
			return fmt.Sprintf("Invalid request: there is no stream %.80q", n.text)
		}
	}
	if answer() != nil {
		return ""
	}
	for _, n := range fresh {
		leave, err := r.join(n)
		if err != nil {
			r.End()
			return ""
		}
		r.subs = append(r.subs, subscription{n, leave})
	}
	return ""
}

// await waits until new streams would include everything answered before.
func (r *reader) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if _, problem := r.door.feed(&request{ctx: ctx}); problem != nil {
		return problem
	}
	return nil
}

// unsubscribe removes streams. It ignores streams to which the connection is not subscribed.
func (r *reader) unsubscribe(texts []string) {
	for _, text := range texts {
		if i := r.find(text); i >= 0 {
			r.subs[i].leave()
			r.subs = slices.Delete(r.subs, i, i+1)
		}
	}
}

// find returns the index of the subscription to a stream, or -1.
func (r *reader) find(text string) int {
	return slices.IndexFunc(r.subs, func(s subscription) bool { return s.text == text })
}
