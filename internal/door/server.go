// Package door is the part of the exchange that clients connect to, whatever their protocol: a Server accepts their
// connections and applies permissions, rates and limits. It also ensures that replies are sent in order and only
// once they are durable. It works on commands and results; a Codec translates between these and bytes.
//
// A session has two goroutines. The reader takes all frames that have already arrived, executes their commands
// together, encodes the replies, and continues; it never waits for a disk. The writer waits until a reply is
// durable, and sends it. So replies leave in the order of the frames, and a client that pipelines pays one hand-off
// and one sync for many frames. The queue between the two is short: the server stops reading from a client that
// does not read its replies.
//
// If a reply waits for the history, a third goroutine encodes it and the replies after it, until none waits any
// more (answerLate). The reader never waits for a database, except for a ref that may be known only in the history.
//
// When the server closes a connection, its last reply says why, after the replies to all frames that took effect.
//
// A Caller is a sender of commands in any protocol, with the state that the server needs to apply permissions,
// rates and limits to it. A session has one; other transports use frame.go and call.go. Callers of functions stand
// above what they call: server.go, then session.go with authorize.go, writer.go and conn.go, then batch.go and
// answers.go, then judge.go, caller.go, charge.go, payers.go and places.go, then execute.go and state.go.
package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Serve accepts connections from l, whose clients use the protocol of c, and closes l at the end. It returns
// nil after Shutdown, and an error if l was closed by other code. It waits and retries after other errors of
// l, such as too many open files.
func (s *Server) Serve(l net.Listener, c Codec) error {
	defer l.Close()
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	var failing acceptFailures
	for !s.isDraining() {
		conn, err := l.Accept()
		switch {
		case err == nil:
			failing.wait = 0
			s.open(conn, c)
		case s.isDraining():
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("session: accept: %w", err)
		default:
			s.backOff(&failing, err)
		}
	}
	return nil
}

// acceptFailures is the state of a run of errors of accept.
type acceptFailures struct {
	wait time.Duration // the last wait; 0 after a connection was accepted
	last time.Time     // when the last error was handled
}

// backOff waits after an error of accept, so that ending connections can free the missing resource. It logs only the
// first of a run of errors. During such a run, a connection may be accepted whenever another ends.
func (s *Server) backOff(f *acceptFailures, err error) {
	s.options.Metrics.acceptErrors.Inc()
	f.wait = max(acceptRetryMin, min(2*f.wait, acceptRetryMax))
	if now := time.Now(); now.Sub(f.last) > acceptSpell {
		s.options.Log.Warn("connections cannot be accepted", "error", err)
	}
	select {
	case <-time.After(f.wait):
	case <-s.accepting.Done():
	}
	f.last = time.Now()
}

// open starts a session, or refuses the connection if the limit is reached.
func (s *Server) open(conn net.Conn, codec Codec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining() {
		conn.Close()
		return
	}
	full := s.takePlace()
	if full != nil && s.refused >= RefusedMax {
		conn.Close()
		return
	}
	if s.options.TLS != nil {
		conn = tls.Server(conn, s.options.TLS)
	}
	c := newSession(s, conn, codec)
	s.sessions[c] = struct{}{}
	if full != nil {
		s.refused++
		c.log(slog.LevelWarn, "a connection is refused: the limit is reached", 0)
		s.running.Go(func() {
			c.refuse(full.Error())
			s.forget(c, false)
		})
		return
	}
	if s.needsProof() {
		s.listUnproved(&c.caller.place)
	}
	s.options.Metrics.opened()
	s.running.Go(func() {
		c.serve()
		s.forget(c, true)
		s.options.Metrics.connections.Dec()
	})
}

// forget removes a session that has ended. served reports whether it counts in s.served.
func (s *Server) forget(c *session, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
	if served {
		s.giveBack(&c.caller.place)
	} else {
		s.refused--
	}
}

// Shutdown ends the server in order: it accepts no new connections, executes and answers the frames that have
// arrived, sends each client a last reply that says so, and closes the connections. When ctx ends, it cuts
// off the remaining connections and returns ctx's error. No goroutine is left in either case.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	s.mu.Lock()
	for _, l := range s.listeners {
		l.Close()
	}
	for c := range s.sessions {
		c.drain()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	defer s.cutOff()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cutOff()
	s.mu.Lock()
	for c := range s.sessions {
		c.cutOff()
	}
	s.mu.Unlock()
	<-done
	return fmt.Errorf("session: connections were cut off: %w", ctx.Err())
}

// SetLimits changes the limits. Each must be above 0. Open connections stay, even if they are more than the
// new limit. The new IdleTimeout and FrameTimeout also hold for frames and idle times that have already
// begun, counted from their beginning. Replies that are being sent keep the old WriteTimeout.
func (s *Server) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.rereadLimits()
	}
}

// Abort closes the listeners and all connections at once, without a last reply. Every call of Answer ends
// with ErrAborted or an error of the exchange. Replies that the kernel does not have by then are never sent.
// Abort does not wait: call Shutdown afterwards, which waits until no goroutine is left. It is for a machine
// that is no longer the leader.
func (s *Server) Abort() {
	s.aborted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.cutOff()
	}
	// Cancel the context only after the connections are closed: otherwise a session whose wait ends would send the
	// reply that the exchange is stopping. No session can begin in between, because open needs mu.
	s.cutOff()
	for _, l := range s.listeners {
		l.Close()
	}
}
