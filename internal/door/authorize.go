package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// Bounds of a connection that has not proved who it is.
const (
	handshakeTimeout  = 10 * time.Second // for TLS
	authTimeout       = 10 * time.Second // for the frame with the token, from the connection's begin
	authFrameBytesMax = 4 << 10
)

// errTokenEnded says that a session's token has ended while it read.
var errTokenEnded = errors.New("session: the token has ended")

// secure does the handshake if the server speaks TLS, and reports whether there is a
// client to talk to. A server that shuts down ends it.
func (c *session) secure() bool {
	conn, ok := c.conn.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(c.server.accepting, handshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		c.server.options.Metrics.handshakeFailures.Inc()
		c.log(slog.LevelInfo, "a TLS handshake has failed", 0, slog.Any("error", err))
		c.demandTLS(err)
		return false
	}
	return true
}

// demandTLS tells a client whose first bytes are no TLS, as the handshake's error says, that it has to speak it.
func (c *session) demandTLS(failed error) {
	var header tls.RecordHeaderError
	if !errors.As(failed, &header) || header.Conn == nil {
		return
	}
	plain := header.Conn
	if plain.SetWriteDeadline(time.Now().Add(c.within(c.server.limits.Load().WriteTimeout))) != nil {
		return
	}
	if _, err := plain.Write(c.lastReply(c.codec.NeedsTLS()).bytes); err == nil {
		c.lingerOn(plain)
	}
}

// cutOff closes the connection at once. Over TLS a farewell would wait for a client
// that takes nothing.
func (c *session) cutOff() {
	conn := c.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

// prove reads the frame with the token if the server asks for one, and keeps what
// it allows. ok is false if the session ends, reason is then as read's.
func (c *session) prove() (reason string, ok bool) {
	tokens := c.server.options.Tokens
	if tokens == nil {
		return "", true
	}
	c.clock.prove = time.Now().Add(authTimeout)
	frame, err := c.frames.Next()
	switch {
	case c.ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "", false
	case err != nil && c.server.isDraining():
		return textDraining, false
	case err == nil:
		var grant *auth.Grant
		if grant, err = c.checkToken(frame); err == nil {
			if full := c.server.enter(c, grant); full > 0 {
				c.log(slog.LevelWarn, "a connection is refused: its token has too many", 0, slog.String("token", grant.ID))
				return fmt.Sprintf("the token has %d connections and may have no more; try again later", full), false
			}
			c.begin(grant)
			return "", true
		}
	}
	if told := c.refuseToken(err); !told {
		return "", false
	}
	return c.codec.Unauthorized(), false
}

// checkToken returns what the token in a frame allows. The error is for the log.
func (c *session) checkToken(frame []byte) (*auth.Grant, error) {
	token, ok := c.codec.Token(frame)
	if !ok {
		return nil, errors.New("the first frame is not <auth>")
	}
	grant, err := c.server.options.Tokens.Check(token)
	if err == nil && !grant.Scope.Allows(auth.Trade) {
		err = fmt.Errorf("token %s of scope %s is not for trading", grant.ID, grant.Scope)
	}
	return grant, err
}

// refuseToken counts a connection without a token that is taken, and reports whether it
// gets an answer.
func (c *session) refuseToken(why error) (told bool) {
	c.server.options.Metrics.authRefused.Inc()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.server.accepting, cancel)()
	told, slowed := c.server.options.Tokens.Wrong(ctx, c.conn.RemoteAddr().String())
	c.log(slog.LevelInfo, "a connection shows no token that is taken", 0, slog.Any("error", why),
		slog.Bool("slowed", slowed))
	return told
}

// begin lets the session act as the bearer of a token, until that ends.
func (c *session) begin(grant *auth.Grant) {
	c.grant, c.clock.prove = grant, time.Time{}
	c.clock.restart()
	c.frames.SetMax(c.server.options.FrameBytesMax)
	done := make(chan struct{})
	stop := grant.AfterEnd(func() {
		defer close(done)
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	})
	c.forget = func() {
		if !stop() {
			<-done // what linger sets must stand
		}
	}
	r := c.server.newReply(engine.Mark{}, time.Now())
	r.bytes = c.codec.EndReply(c.codec.AppendAuthorized(r.bytes), 0)
	c.executed++
	r.frame = c.executed
	c.push(r)
}

// tokenEnded reports whether the session has a token that has ended.
func (c *session) tokenEnded() bool { return c.grant != nil && c.grant.Err() != nil }

// judge says which commands are done. It is for one batch.
type judge struct {
	grant    *auth.Grant // nil if nobody needs one
	accounts *accountRates
	rate     int64 // of accounts, 0 for no limit
	now      time.Time
	metrics  *Metrics
}

// judgeOf returns the judge of a batch that arrives now, nil if all is allowed.
func (s *Server) judgeOf(grant *auth.Grant) *judge {
	rate := s.accountRate.Load()
	if grant == nil && rate == 0 {
		return nil
	}
	return &judge{grant, s.accounts, rate, time.Now(), s.options.Metrics}
}

// judge returns why a command is not done, the zero value if it is, and sets its terms.
func (j *judge) judge(c *engine.Request) (refusal exchange.Refusal) {
	if j.grant != nil {
		if refusal = j.permit(&c.Command); refusal.Reason != exchange.OK {
			j.metrics.authDenied.Inc()
			return refusal
		}
		c.OwnOnly = c.Kind == exchange.QueryOrder && !j.grant.Scope.IsAdmin()
	}
	if j.rate > 0 {
		refusal = j.pace(c)
	}
	return refusal
}

// permit returns why the token does not allow a command, the zero value if it does.
func (j *judge) permit(c *exchange.Command) (refusal exchange.Refusal) {
	scope := j.grant.Scope
	allowed := scope.ActsFor(c.Account)
	switch c.Kind {
	case exchange.OpenAccount, exchange.MakeSymbol, exchange.DepositShares:
		allowed = scope.IsAdmin()
	case exchange.PlaceOrder, exchange.QueryOrder, exchange.CancelOrder, exchange.ShowOrder, exchange.AmendOrder,
		exchange.CancelAll, exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
	}
	if !allowed {
		r := exchange.Result{Reason: exchange.NotAllowed}
		refusal = exchange.Refusal{Reason: r.Reason, Text: r.Text(c)}
	}
	return refusal
}

// pace returns why an account has to wait, the zero value if it does not. A command with a ref
// goes on all the same, as it may have been done before: then it gets the first answer
// again, since a client that is refused may send it under another ref.
func (j *judge) pace(c *engine.Request) (refusal exchange.Refusal) {
	ref := c.Ref
	switch c.Kind {
	case exchange.OpenAccount, exchange.DepositShares, exchange.PlaceOrder:
	case exchange.AmendOrder:
		if ref = ""; c.More != nil {
			ref = c.More.NewRef // the other one names the order
		}
	case exchange.MakeSymbol, exchange.QueryOrder, exchange.CancelOrder, exchange.ShowOrder, exchange.CancelAll,
		exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
		return refusal
	}
	wait := j.accounts.spend(c.Account, j.rate, j.now)
	if wait == 0 {
		return refusal
	}
	j.metrics.hit(limitRateAccount)
	if ref != "" {
		c.Repeat = true
		return refusal
	}
	return exchange.Refusal{Reason: exchange.RateExceeded, Text: fmt.Sprintf(
		"account %s is over its limit of %d orders and creates a second; try again in %s", c.Account, j.rate, roundUp(wait))}
}
