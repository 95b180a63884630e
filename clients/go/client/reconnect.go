package client

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
)

// run serves one link after another until the client is closed. l is the first.
func (c *Client) run(l *link) {
	w := wait{options: &c.options}
	for l != nil {
		c.made(l)
		err := l.serve()
		w.lost(l.answers > 0)
		c.sortOut(l, err)
		c.bear(l)
		switch {
		case l.successor != nil:
			l = l.successor
		case c.several():
			l = c.elsewhere(&w, l.answers > 0)
		default:
			l = c.connect(&w)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.queue {
		call.fail(ErrClosed)
	}
	c.queue = nil
}

// made counts a connection.
func (c *Client) made(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Addr = l.addr
	c.stats.Connections++
}

// dequeue removes from the queue the calls to send with one write. A suspect is sent alone, so that no other call fails
// with it.
func (c *Client) dequeue() (calls []*Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes := 0
	for len(c.queue) > 0 && bytes < flushBytesMax {
		call := c.queue[0]
		if call.suspect && len(calls) > 0 {
			break
		}
		c.queue[0], c.queue = nil, c.queue[1:]
		call.tries++
		call.arrived++
		bytes += len(call.frame)
		calls = append(calls, call)
		if call.suspect {
			break
		}
	}
	return calls
}

// sortOut handles the calls of a link that has ended. It puts unsent calls, and unanswered ones that are safe to
// repeat, back to the front of the queue. It ends the others.
func (c *Client) sortOut(l *link, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var again []*Call
	guilty := l.accuse(why)
	unauthorized := errors.As(why, new(*Unauthorized)) || errors.Is(why, ErrNeedsTLS)
	for _, call := range l.sent {
		if unauthorized {
			call.arrived-- // the exchange has executed nothing
			call.fail(why)
		} else if repeatable(call.commands) && call != guilty && c.mayTryAgain(call, now) {
			again = append(again, call)
		} else {
			call.fail(why)
		}
	}
	for _, call := range l.unsent {
		call.arrived--
		if !unauthorized && call != guilty && c.mayTryAgain(call, now) {
			again = append(again, call)
		} else {
			call.fail(why)
		}
	}
	level := slog.LevelDebug // for an idle connection
	if len(l.sent)+len(l.unsent) > 0 {
		level = slog.LevelWarn
	}
	c.options.Log.Log(c.open, level, "the connection to the exchange is lost", "addr", l.addr, "error", why,
		"unanswered", len(l.sent)+len(l.unsent), "sent_again", len(again))
	c.queue = append(again, c.queue...)
	c.stats.SentAgain += uint64(len(again))
	c.rouse()
}

// accuse marks the call that the exchange's last words may be about, the oldest unanswered one, as a suspect. A
// suspect is sent once more, alone, right after the answer to a frame without effect. If the exchange closes that
// connection with last words too, accuse returns the suspect as guilty.
func (l *link) accuse(why error) (guilty *Call) {
	var oldest *Call
	switch {
	case !errors.As(why, new(*LastWords)):
		return nil
	case len(l.sent) > 0:
		oldest = l.sent[0]
	case len(l.unsent) > 0:
		oldest = l.unsent[0]
	default:
		return nil
	}
	if oldest.suspect {
		return oldest
	}
	oldest.suspect = true
	return nil
}

// mayTryAgain reports whether a call whose connection has just broken may still be sent again. Callers hold mu.
func (c *Client) mayTryAgain(call *Call, now time.Time) bool {
	if call.tries == 1 {
		call.since = now
	}
	return !call.left && !c.closed && now.Sub(call.since) < c.options.RetryTime
}

// connect waits until there is a call to send and makes a new link. It returns nil if the client is closed first.
func (c *Client) connect(w *wait) *link {
	for c.waitForWork() && w.pause(c) {
		if !c.pending() {
			continue // the call's caller has given up
		}
		conn, err := dialOne(c.open, c.addrs[0], c.options)
		if err == nil && c.suspects() {
			err = c.probe(conn)
		}
		w.tried()
		if err == nil {
			c.options.Log.Info("connected to the exchange again", "addr", c.addrs[0])
			return newLink(c, conn, c.addrs[0])
		}
		c.expire(err)
	}
	return nil
}

// suspects reports whether the first call of the queue is a suspect.
func (c *Client) suspects() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0 && c.queue[0].suspect
}

// probe sends a frame without effect and waits for its answer. If there is no answer, it closes the connection. The
// suspect was not sent on that connection, and is not blamed.
func (c *Client) probe(conn *Conn) error {
	stop := context.AfterFunc(c.open, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(c.options.ReplyTimeout)) // if this fails, the probe fails too
	err := conn.probe()
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
	}
	return err
}

// waitForWork waits until the queue has a call. It returns false if the client is closed.
func (c *Client) waitForWork() bool {
	for !c.pending() {
		select {
		case <-c.wake:
		case <-c.open.Done():
			return false
		}
	}
	return c.open.Err() == nil
}

// pending reports whether the queue has a call.
func (c *Client) pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0
}

// expire ends the calls that have waited for a connection for RetryTime. If the reason is final, it ends all calls.
func (c *Client) expire(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.queue = slices.DeleteFunc(c.queue, func(call *Call) bool {
		over := final(why) || now.Sub(call.since) >= c.options.RetryTime
		if over {
			call.fail(why)
		}
		return over
	})
}

// final reports whether connecting again would fail for the same reason.
func final(err error) bool {
	return errors.Is(err, ErrInsecureToken) || errors.Is(err, ErrNeedsTLS) || errors.As(err, new(*Unauthorized)) ||
		errors.As(err, new(*tls.CertificateVerificationError))
}

// wait computes the pauses between attempts to connect.
type wait struct {
	options *Options
	pauses  time.Duration // length of the next pause
	from    time.Time     // when the pause began
}

// lost begins the pause after a link has ended. If the link received an answer, pauses start at the shortest.
func (w *wait) lost(answered bool) {
	if answered || w.pauses == 0 {
		w.pauses = w.options.PauseMin
	}
	w.from = time.Now()
}

// tried begins the pause after an attempt to connect. It is twice as long as the one before.
func (w *wait) tried() {
	w.pauses = min(2*w.pauses, w.options.PauseMax)
	w.from = time.Now()
}

// pause waits for the rest of the pause. Half of its length is random, so that clients do not all reconnect at the same
// time. It returns false if c is closed first.
func (w *wait) pause(c *Client) bool {
	half := w.pauses / 2
	rest := time.Until(w.from.Add(half + rand.N(half+1)))
	if rest <= 0 {
		return c.open.Err() == nil
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.open.Done():
		return false
	}
}
