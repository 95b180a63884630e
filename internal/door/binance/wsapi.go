package binance

import (
	"bytes"
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
)

// apiConn is a connection to the WebSocket API. Only its own goroutine uses its fields, except socket.
type apiConn struct {
	door   *Door
	socket *websocket.Conn
	caller *door.Caller // nil on a standby
	users  map[int64]*userStream
	nextID int64
}

// serveAPI opens a connection to the WebSocket API.
func (d *Door) serveAPI(w http.ResponseWriter, r *http.Request) {
	d.open(w, r, func(conn *websocket.Conn, caller *door.Caller) {
		c := &apiConn{door: d, socket: conn, caller: caller, users: make(map[int64]*userStream)}
		conn.OnSlow(func() string { return "too slow for the events of its accounts" })
		c.serve()
	})
}

// serve answers the connection's requests one after another.
func (c *apiConn) serve() {
	defer c.leave()
	for {
		text, err := c.socket.Read()
		if err != nil {
			if errors.Is(err, websocket.ErrDraining) {
				c.socket.Close(websocket.CodeGoingAway, "the exchange stops")
			}
			return
		}
		slowDown(c.caller)
		if !c.take(text) {
			return
		}
	}
}

// leave ends all subscriptions.
func (c *apiConn) leave() {
	for _, u := range c.users {
		u.leave()
	}
}

// apiRequest is a request of the WebSocket API.
type apiRequest struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
}

// take answers a request. It returns false if the connection has ended.
func (c *apiConn) take(text []byte) bool {
	var a apiRequest
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&a); err != nil || !isID(a.ID) {
		return c.answer(nil, nil, bad(-1135, "The request is not a JSON object with id, method and params."))
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	q := &request{ctx: ctx, address: c.socket.RemoteAddr(), arrived: time.Now()}
	if problem := q.readParams(a.Params); problem != nil {
		return c.answer(a.ID, nil, problem)
	}
	switch a.Method {
	case "userDataStream.subscribe.signature":
		return c.subscribe(&a, q)
	case "userDataStream.unsubscribe":
		return c.unsubscribe(&a, q)
	}
	at := findName(a.Method)
	if at == nil {
		return c.answer(a.ID, nil, bad(-1000, fmt.Sprintf("Method %.80q is not offered.", a.Method)))
	}
	result, problem := c.door.ask(q, at, func() *Error { return nil })
	return c.answer(a.ID, result, problem)
}

// readParams reads the parameters of a request of the WebSocket API. The signature covers all other parameters, sorted
// by name, with the values as they are in the JSON.
func (q *request) readParams(params map[string]json.RawMessage) *Error {
	q.values = make(map[string]string, len(params))
	names := make([]string, 0, len(params))
	for name, raw := range params {
		value := string(raw)
		if raw[0] == '"' {
			if json.Unmarshal(raw, &value) != nil {
				return bad(-1100, "Illegal characters found in a parameter.")
			}
		}
		if q.values[name] = value; name != "signature" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var signed strings.Builder
	for i, name := range names {
		if i > 0 {
			signed.WriteByte('&')
		}
		signed.WriteString(name)
		signed.WriteByte('=')
		signed.WriteString(q.values[name])
	}
	q.signed, q.signature, q.key = signed.String(), q.values["signature"], q.values["apiKey"]
	return nil
}

// answer answers a request with a result or a problem. It returns false if the connection has ended.
func (c *apiConn) answer(id json.RawMessage, result []byte, problem *Error) bool {
	return c.socket.Answer(websocket.NewFrame(appendAPIAnswer(id, result, problem))) == nil
}

// appendAPIAnswer returns the answer to a request of the WebSocket API.
func appendAPIAnswer(id json.RawMessage, result []byte, problem *Error) []byte {
	b := append(make([]byte, 0, len(id)+len(result)+64), '{')
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	b = jsontext.Raw(b, "id", id)
	if problem == nil {
		b = jsontext.Number(b, "status", http.StatusOK)
		b = jsontext.Raw(b, "result", result)
		b = jsontext.Raw(b, "rateLimits", "[]")
		return append(b, '}')
	}
	b = jsontext.Number(b, "status", problem.Status)
	b = problem.body(jsontext.Name(b, "error"))
	b = jsontext.Raw(b, "rateLimits", "[]")
	return append(b, '}')
}

// userStreamsMax is the maximum number of account subscriptions of a connection.
const userStreamsMax = 64

// subscribe answers userDataStream.subscribe.signature. The events of the account follow the answer.
func (c *apiConn) subscribe(a *apiRequest, q *request) bool {
	d := c.door
	problem := d.know(q)
	if problem == nil {
		problem = d.authorize(q)
	}
	if problem == nil {
		problem = c.prove(q)
	}
	if problem == nil && len(c.users) >= userStreamsMax {
		problem = bad(-1130, "This connection has as many subscriptions as it may.")
	}
	if problem != nil {
		return c.answer(a.ID, nil, problem)
	}
	view, _, problem := d.seen(q)
	if problem != nil {
		return c.answer(a.ID, nil, problem)
	}
	b := append(jsontext.Number([]byte{'{'}, "subscriptionId", c.nextID), '}')
	u := &userStream{door: c.door, conn: c.socket, id: c.nextID}
	if err := u.begin(view, q, websocket.NewFrame(appendAPIAnswer(a.ID, b, nil))); err != nil {
		return c.answer(a.ID, nil, problemOf(err))
	}
	c.users[c.nextID] = u
	c.nextID++
	return true
}

// prove records that the owner of a key uses the connection, because it receives the account's events from now on.
func (c *apiConn) prove(q *request) *Error {
	if c.caller == nil || q.grant == nil || c.caller.Grant() != nil {
		return nil
	}
	if err := c.caller.Prove(q.grant); err != nil {
		return errRate
	}
	return nil
}

// unsubscribe answers userDataStream.unsubscribe. It ends one subscription, or all if the request names none.
func (c *apiConn) unsubscribe(a *apiRequest, q *request) bool {
	value := q.get("subscriptionId")
	if value == "" {
		c.leave()
		clear(c.users)
		return c.answer(a.ID, []byte("{}"), nil)
	}
	id, problem := whole("subscriptionId", value, 0)
	if problem != nil {
		return c.answer(a.ID, nil, problem)
	}
	u := c.users[id]
	if u == nil {
		return c.answer(a.ID, nil, notValid("subscriptionId"))
	}
	u.leave()
	delete(c.users, id)
	return c.answer(a.ID, []byte("{}"), nil)
}
