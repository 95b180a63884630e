package jsonrpc

import (
	"context"
	"log/slog"
	"time"

	"outcry/internal/auth"
	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
)

// wrongTokenTimeout is the longest delay of the answer to a wrong token. The delay slows down clients that guess.
const wrongTokenTimeout = time.Second

// enter gives the connection one of the exchange's places for connections, unless it already has one or the server
// does not accept orders yet.
func (c *conn) enter() (err error) {
	if s := c.door.options.Sessions(); s != nil && c.caller == nil {
		c.caller, err = s.Enter(c.socket.RemoteAddr(), c.grant, c.socket.Abort)
	}
	return err
}

// mayRead returns a fault if the client may not read market data.
func (c *conn) mayRead() *fault {
	if c.door.options.Tokens == nil || c.grant.Scope.Allows(auth.Market) {
		return nil
	}
	return c.denied("the token does not allow this, which needs scope " + auth.Market.Scopes())
}

// mayActFor returns a fault if the client may not act for an account. It judges all reads of this door. Commands are
// judged by door.Server.
func (c *conn) mayActFor(id exchange.AccountID) *fault {
	if c.door.options.Tokens == nil || c.grant.Scope.ActsFor(id) {
		return nil
	}
	r := exchange.Result{Reason: exchange.NotAllowed}
	return c.denied(r.Text(&exchange.Command{Kind: exchange.ShowAccount, Account: id}))
}

func (c *conn) denied(text string) *fault {
	c.door.options.Denied()
	return refused(exchange.NotAllowed, text)
}

// setGrant sets the client's grant; nil allows nothing yet. When the token expires, the connection is closed and
// its unsent messages are dropped.
func (c *conn) setGrant(grant *auth.Grant) {
	c.grant = grant
	if grant == nil {
		return
	}
	if all := grant.Scope.Accounts(); len(all) == 1 {
		c.one = all[0]
	}
	c.stopGrant = grant.AfterEnd(func() { c.socket.Cut(websocket.CodeUnauthorized, "the token has ended") })
}

// unproved closes a connection that has shown no token within door.AuthTimeout.
func (c *conn) unproved() {
	c.socket.Close(websocket.CodeUnauthorized, "no token was presented")
}

func (c *conn) beginAuth(k *call) *fault {
	tokens := c.door.options.Tokens
	if tokens == nil {
		return nil
	}
	if c.grant != nil {
		return wrong(alreadyAuthenticated, "this connection has presented a token already")
	}
	grant, err := tokens.Check(k.args.token)
	if err != nil {
		c.door.options.Refused()
		ctx, cancel := context.WithTimeout(c.ctx, wrongTokenTimeout)
		defer cancel()
		_, slowed := tokens.Wrong(ctx, c.socket.RemoteAddr())
		c.door.options.Log.Info("a connection presented no valid token",
			"client", c.socket.RemoteAddr(), "error", err, slog.Bool("slowed", slowed))
		k.last = true
		return wrong(unauthenticated, textUnauthenticated)
	}
	if c.caller != nil {
		err = c.caller.Prove(grant)
	}
	if err != nil {
		k.last = true
		return wrong(busy, err.Error())
	}
	c.authTimer.Stop()
	c.setGrant(grant)
	k.grant = grant
	return nil
}

func (c *conn) answerAuth(_ context.Context, k *call, b []byte) ([]byte, error) {
	if b = jsontext.Bool(b, "required", k.grant != nil); k.grant == nil {
		return b, nil
	}
	scope := k.grant.Scope
	b = jsontext.Word(b, "scope", scope.Name())
	if all := scope.Accounts(); all != nil {
		b = jsontext.Words(b, "accounts", all)
	}
	return b, nil
}

func (c *conn) answerPing(_ context.Context, _ *call, b []byte) ([]byte, error) {
	return memberTime(b, "time", time.Now().UnixNano()), nil
}

func (c *conn) beginOnDisconnect(k *call) *fault {
	c.cancels = k.args.on
	return nil
}

func (c *conn) answerOnDisconnect(_ context.Context, k *call, b []byte) ([]byte, error) {
	return jsontext.Bool(b, "on", k.args.on), nil
}
