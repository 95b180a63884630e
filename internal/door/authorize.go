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

// Limits of a connection that has not yet presented its token.
const (
	handshakeTimeout  = 10 * time.Second // for the TLS handshake
	authTimeout       = 10 * time.Second // for the frame with the token, from the start of the session
	authFrameBytesMax = 4 << 10
)

// errTokenEnded is the error of a read during which the session's token expired or was revoked.
var errTokenEnded = errors.New("session: the token has ended")

// secure does the TLS handshake if the server uses TLS, and reports whether the session can go ahead. A
// shutdown of the server ends the handshake.
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

// demandTLS answers a client whose first bytes are not TLS, according to the error of the handshake: it must
// use TLS.
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

// cutOff closes the connection at once. For TLS it closes the connection below, because the closing alert of
// TLS would wait for a client that does not read.
func (c *session) cutOff() {
	conn := c.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

// prove reads the frame with the token, if the server requires one, and keeps the grant. ok is false if the
// session ends; reason is then the last reply, "" for none.
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
	if answered := c.refuseToken(err); !answered {
		return "", false
	}
	return c.codec.Unauthorized(), false
}

// checkToken returns the grant of the token in a frame. The error is for the log, not for the client.
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

// refuseToken counts a connection without a valid token, and reports whether it gets an answer.
func (c *session) refuseToken(why error) (answered bool) {
	c.server.options.Metrics.authRefused.Inc()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.server.accepting, cancel)()
	answered, slowed := c.server.options.Tokens.Wrong(ctx, c.conn.RemoteAddr().String())
	c.log(slog.LevelInfo, "a connection presented no valid token", 0, slog.Any("error", why),
		slog.Bool("slowed", slowed))
	return answered
}

// begin starts the session's work under a grant: it resets the deadlines, allows frames of full size, watches
// for the end of the token and pushes the reply to the token.
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
			<-done // no deadline may be set after linger has set its own
		}
	}
	r := c.server.newReply(engine.Mark{}, time.Now())
	r.bytes = c.codec.EndReply(c.codec.AppendAuthorized(r.bytes), 0)
	c.executed++
	r.frame = c.executed
	c.push(r)
}

// tokenEnded reports whether the session's token has expired or was revoked.
func (c *session) tokenEnded() bool { return c.grant != nil && c.grant.Err() != nil }

// judge decides which commands of one batch are executed.
type judge struct {
	grant    *auth.Grant // nil if no token is required
	accounts *accountRates
	rate     int64 // commands per second of an account, 0 for no limit
	now      time.Time
	metrics  *Metrics
}

// judgeOf returns the judge of a batch that arrives now, or nil if all commands are allowed.
func (s *Server) judgeOf(grant *auth.Grant) *judge {
	rate := s.accountRate.Load()
	if grant == nil && rate == 0 {
		return nil
	}
	return &judge{grant, s.accounts, rate, time.Now(), s.options.Metrics}
}

// judge returns the refusal of a command, the zero value if the command is allowed. It sets the command's
// OwnOnly and Repeat.
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

// permit returns a refusal if the token does not allow the command, else the zero value.
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

// pace returns a refusal if the account is over its rate, else the zero value. A command with a ref is passed
// on even then, with Repeat set, as it may be a repetition of one that was done. In that case the client gets
// the first answer once more; a refusal could make it send the same order under another ref.
func (j *judge) pace(c *engine.Request) (refusal exchange.Refusal) {
	ref := c.Ref
	switch c.Kind {
	case exchange.OpenAccount, exchange.DepositShares, exchange.PlaceOrder:
	case exchange.AmendOrder:
		if ref = ""; c.More != nil {
			ref = c.More.NewRef // c.Ref names the order to amend
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
