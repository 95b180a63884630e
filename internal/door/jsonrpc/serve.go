// Package jsonrpc is JSON-RPC 2.0 over WebSocket, at GET /api/v1/ws: orders, accounts and market data for programs in
// any language, and for browsers. docs/reference/WEBSOCKET.md lists its methods, values, reasons and channels. That
// page, and the tests that compare messages with asyncapi.yaml, are generated from this package's tables (methods,
// channels, reasons).
//
// The package translates and decides nothing. Commands go to door.Server, which judges and executes them as it does
// for every protocol. Accounts come from accounts.View, market data from market.Feed, and orders that closed long
// ago from the database. Package websocket is the connection itself: frames, queues, slow readers.
//
//	text ─▶ jsontext (strict JSON) ─▶ request.parse (envelope) ─▶ method.read (names, types, values)
//	     ─▶ conn (executes in order) ─▶ answers (wait until durable, send in order) ─▶ websocket
//	accounts.View, market.Feed ─▶ channels (one message for all readers) ─▶ websocket
//
// Requests of a connection take effect in their order, and results are sent in that order. Commands are executed
// as they arrive, without waiting for the disk. A command that follows a read waits until the read has its
// answer, so that the seq of answers never decreases.
package jsonrpc

import (
	"context"
	"errors"
	"net/http"
	"time"

	"outcry/internal/auth"
	"outcry/internal/door"
	"outcry/internal/door/websocket"
)

// ServeHTTP answers a request to open a connection. Its context has the grant of the client's token (auth.WithGrant),
// if it sent one.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	grant := auth.GrantOf(r.Context())
	d.options.Socket.Serve(w, r, func(s *websocket.Conn) (serve func(), err error) {
		c := d.newConn(s, grant)
		if err = c.enter(); err != nil {
			c.end()
			return nil, err
		}
		return c.serve, nil
	})
}

func (d *Door) newConn(s *websocket.Conn, grant *auth.Grant) *conn {
	c := &conn{door: d, socket: s, subs: make(map[string]*reader)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.changed.L = &c.mu
	c.setGrant(grant)
	s.OnSlow(c.slow)
	return c
}

// serve reads and executes requests until the connection ends, and waits until all of them are answered.
func (c *conn) serve() {
	defer c.end()
	if c.door.options.Tokens != nil && c.grant == nil {
		c.authTimer = time.AfterFunc(door.AuthTimeout, c.unproved)
		defer c.authTimer.Stop()
	}
	for {
		text, err := c.socket.Read()
		if err != nil {
			c.execute()
			if !errors.Is(err, websocket.ErrDraining) {
				return
			}
			c.finish()
			c.socket.Close(websocket.CodeGoingAway, "the exchange stops")
			return
		}
		if !c.accept(text) || !c.mayJoin() && !c.execute() {
			return
		}
	}
}

// end frees all that the connection holds. The reader calls it last.
func (c *conn) end() {
	c.mu.Lock()
	c.ended = true
	c.changed.Broadcast()
	c.mu.Unlock()
	if c.socket.Ended() {
		c.cancel() // no answer can be sent any more
	}
	c.finish()
	c.cancel()
	if c.caller != nil {
		c.caller.Leave()
	}
	if c.stopGrant != nil {
		c.stopGrant()
	}
	for _, r := range c.takeSubs(nil) {
		r.leave()
	}
	for _, release := range c.watched {
		release()
	}
}
