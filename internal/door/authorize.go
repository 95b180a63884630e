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
)

// secure does the TLS handshake if the server uses TLS, and reports whether the session can continue. A
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

// demandTLS sends a client whose first bytes are not TLS the reply that it must use TLS. failed is the error of the
// handshake.
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

// prove reads the frame with the token, if the server requires one, and sets the caller's grant. ok is false if the
// session ends; reason is then the last reply, "" for none.
func (c *session) prove() (reason string, ok bool) {
	tokens := c.server.options.Tokens
	if tokens == nil {
		return "", true
	}
	c.clock.prove = time.Now().Add(AuthTimeout)
	frame, err := c.frames.Next()
	switch {
	case c.ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "", false
	case err != nil && c.server.isDraining():
		return textDraining, false
	case err == nil:
		var grant *auth.Grant
		if grant, err = c.checkToken(frame); err == nil {
			if full := c.caller.Prove(grant); full != nil {
				c.log(slog.LevelWarn, "a connection is refused: its token has too many connections", 0,
					slog.String("token", grant.ID))
				return full.Error(), false
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

// begin starts the session's work under the caller's grant: it resets the deadlines, allows frames of full size,
// watches for the end of the token, and pushes the reply to the frame that presented the token.
func (c *session) begin(grant *auth.Grant) {
	c.clock.prove = time.Time{}
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
