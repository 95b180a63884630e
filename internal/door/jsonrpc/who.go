package jsonrpc

import (
	"context"
	"time"

	"outcry/internal/auth"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
)

// authTimeout is how long a connection may take to show a token.
const authTimeout = 10 * time.Second

// wrongTokenTimeout is how long a client may have to wait that shows a token that is not taken: those who guess wait.
const wrongTokenTimeout = time.Second

// enter gives the connection a place among all of the exchange, once there is one.
func (c *conn) enter() (err error) {
	if s := c.door.options.Sessions(); s != nil && c.caller == nil {
		c.caller, err = s.Enter(c.socket.RemoteAddr(), c.grant, c.socket.Abort)
	}
	return err
}

// mayRead returns a fault if market data is not for the client.
func (c *conn) mayRead() *fault {
	if c.door.options.Tokens == nil || c.grant.Scope.Allows(auth.Market) {
		return nil
	}
	return c.denied("the token is not for this, which needs scope " + auth.Market.Scopes())
}

// mayActFor returns a fault if the client may not trade for an account: the one place that says so for what a door
// reads. What it executes door.Server judges once more.
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

// setGrant says what the client may do, nil if nothing yet. When the token ends, the connection does, and what waits is
// not sent any more.
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

// unproved closes a connection that has shown no token in time.
func (c *conn) unproved() {
	c.socket.Close(websocket.CodeUnauthorized, "no token was shown")
}

func (c *conn) beginAuth(k *call) *fault {
	tokens := c.door.options.Tokens
	if tokens == nil {
		return nil
	}
	if c.grant != nil {
		return wrong(alreadyAuthenticated, "this connection has shown a token already")
	}
	grant, err := tokens.Check(k.args.token)
	if err != nil {
		c.door.options.Refused()
		ctx, cancel := context.WithTimeout(c.ctx, wrongTokenTimeout)
		defer cancel()
		_, _ = tokens.Wrong(ctx, c.socket.RemoteAddr())
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
	c.late.Stop()
	c.setGrant(grant)
	k.grant = grant
	return nil
}

func (c *conn) answerAuth(_ context.Context, k *call, b []byte) ([]byte, error) {
	if b = memberBool(b, "required", k.grant != nil); k.grant == nil {
		return b, nil
	}
	scope := k.grant.Scope
	b = memberName(b, "scope", scope.Name())
	if all := scope.Accounts(); all != nil {
		b = list(b, "accounts", len(all), func(b []byte, i int) []byte { return appendText(b, string(all[i])) })
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
	return memberBool(b, "on", k.args.on), nil
}
