package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Bounds of a search among several addresses.
const (
	// addressesMax is how many addresses a list may have.
	addressesMax = 16

	// switchTime is how long a reply may be owed before other addresses are asked: the kernel
	// of a machine that hangs still accepts connections, and the exchange on it never answers.
	switchTime = 500 * time.Millisecond

	// searchPauseMax is the longest pause between two tries of one address in a search. It is
	// short, as a cluster without a leader has one again within about a second.
	searchPauseMax = 200 * time.Millisecond

	// silentTicks is how often in a SwitchTime a link is looked at.
	silentTicks = 5
)

// errSilent is why a link has ended that another address has taken over from.
var errSilent = errors.New("the exchange owes a reply, and another address takes orders")

// nobodyError says why none of several addresses took the connection.
type nobodyError struct{ why []error }

func (e *nobodyError) Error() string {
	var texts []string
	for _, err := range e.why {
		texts = append(texts, strings.TrimPrefix(err.Error(), "client: "))
	}
	return "client: no address takes orders: " + strings.Join(texts, "; ")
}

func (e *nobodyError) Unwrap() []error { return e.why }

// split returns the addresses of a list with commas between them.
func split(list string) ([]string, error) {
	addrs := strings.Split(list, ",")
	if len(addrs) > addressesMax {
		return nil, fmt.Errorf("client: %d addresses are over the limit of %d", len(addrs), addressesMax)
	}
	for i := range addrs {
		if addrs[i] = strings.TrimSpace(addrs[i]); addrs[i] == "" && len(addrs) > 1 {
			return nil, fmt.Errorf("client: %.200q: address %d of the list is empty", list, i+1)
		}
	}
	return addrs, nil
}

// search looks for an address that takes orders, for up to RetryTime.
func (o *Options) search(ctx context.Context, addrs []string) (*Conn, string, error) {
	if o.RetryTime > 0 {
		within, cancel := context.WithTimeout(ctx, o.RetryTime)
		defer cancel()
		return o.find(within, addrs)
	}
	return o.find(ctx, addrs)
}

// found is what the tries of one address came to.
type found struct {
	conn *Conn
	addr string
	err  error
}

// find tries all addresses at the same time, so that one that hangs delays nobody, again and
// again if RetryTime allows it, and returns the first connection that answers, with its
// address. Nothing of it runs any more when it returns. The error is one that does not pass
// by itself, or a *nobodyError when ctx has ended.
func (o *Options) find(ctx context.Context, addrs []string) (*Conn, string, error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan found, len(addrs))
	for _, addr := range addrs {
		go func() { results <- o.pursue(within, addr) }()
	}
	var best found
	nobody := new(nobodyError)
	for range addrs {
		switch f := <-results; {
		case f.err != nil && final(f.err) && best.conn == nil && best.err == nil:
			best = f
			cancel()
		case f.err != nil:
			nobody.why = append(nobody.why, f.err)
		case best.conn == nil:
			best = f
			cancel()
		default:
			f.conn.Close()
		}
	}
	if best.conn != nil {
		return best.conn, best.addr, nil
	}
	if best.err != nil {
		return nil, "", best.err
	}
	if err := ctx.Err(); err != nil {
		nobody.why = append(nobody.why, err)
	}
	return nil, "", nobody
}

// pursue tries one address until it answers, ctx ends, or a further try would end alike.
func (o *Options) pursue(ctx context.Context, addr string) found {
	limit, pause := min(o.switchTime(), o.DialTimeout), o.PauseMin
	var last error
	for {
		conn, err := o.attempt(ctx, addr, limit)
		switch {
		case err == nil:
			return found{conn: conn, addr: addr}
		case last == nil || ctx.Err() == nil:
			last = err // what ends with ctx says nothing new
		}
		if o.RetryTime <= 0 || final(err) || ctx.Err() != nil {
			return found{addr: addr, err: last}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			limit = min(2*limit, o.DialTimeout) // it may be far away
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		case <-ctx.Done():
		}
		pause = min(2*pause, o.PauseMax, searchPauseMax)
	}
}

// attempt connects to one address, and has a frame without effect answered, within limit.
func (o *Options) attempt(ctx context.Context, addr string, limit time.Duration) (*Conn, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := dialOne(within, addr, *o)
	if err == nil {
		stop := context.AfterFunc(within, func() { conn.Close() })
		err = conn.probe()
		if !stop() && err == nil {
			err = within.Err()
		}
		if err != nil {
			conn.Close()
		}
	}
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("client: %s: no answer within %v: %w", addr, limit, within.Err())
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// switchTime is SwitchTime; if that is below 0, as long as one try to connect may take.
func (o *Options) switchTime() time.Duration {
	if o.SwitchTime < 0 {
		return o.DialTimeout
	}
	return o.SwitchTime
}

// several reports whether there is another address to turn to.
func (c *Client) several() bool { return len(c.addrs) > 1 }

// elsewhere waits until there is something to send, and makes a new link to an address that
// takes orders; nil if the client is closed before. It begins at once if the link before had
// an answer.
func (c *Client) elsewhere(w *wait, answered bool) *link {
	for c.waitForWork() && (answered || w.pause(c)) {
		answered = false
		if !c.pending() {
			continue // its caller has given up
		}
		ctx, cancel := context.WithDeadline(c.open, c.firstExpiry())
		if c.options.RetryTime <= 0 {
			ctx, cancel = context.WithCancel(c.open) // each address once
		}
		conn, addr, err := c.options.find(ctx, c.addrs)
		cancel()
		w.tried()
		if err == nil {
			c.options.Log.Info("connected to the exchange again", "addr", addr)
			return newLink(c, conn, addr)
		}
		c.expire(err)
	}
	return nil
}

// firstExpiry returns when the first call of the queue has waited long enough.
func (c *Client) firstExpiry() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := time.Now().Add(c.options.RetryTime)
	for _, call := range c.queue {
		if at := call.since.Add(c.options.RetryTime); at.Before(first) {
			first = at
		}
	}
	return first
}

// bear sets how long the next link may be silent. An exchange that has two addresses in the
// list, and is slow, must not be turned away from for ever: its patience grows.
func (c *Client) bear(l *link) {
	switch {
	case l.successor != nil && time.Since(l.began) < c.options.ReplyTimeout:
		c.patience = min(2*c.patience, c.options.ReplyTimeout)
	default:
		c.patience = c.options.SwitchTime
	}
}

// watch looks for another address while replies are owed for too long, and ends the link if
// there is one: l.successor is the connection to it.
func (l *link) watch() {
	c := l.client
	tick := time.NewTicker(max(l.patience/silentTicks, 1))
	defer tick.Stop()
	ctx, cancel := context.WithCancel(c.open)
	defer cancel()
	go func() {
		<-l.ended
		cancel()
	}()
	quiet, answers := 0, uint64(0)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		quiet++
		if now, owes := l.progress(); !owes || now != answers {
			quiet, answers = 0, now
		}
		if quiet <= silentTicks { // the first tick may come right after a frame was sent
			continue
		}
		quiet = 0
		within, stop := context.WithTimeout(ctx, l.patience)
		conn, addr, err := c.options.find(within, c.others(l.addr))
		stop()
		if err != nil {
			continue // no other takes orders: this one may only be slow
		}
		if now, owes := l.progress(); !owes || now != answers || ctx.Err() != nil {
			conn.Close()
			continue
		}
		l.successor = newLink(c, conn, addr)
		l.conn.Close()
		return
	}
}

// progress returns how many replies have come, and whether one is owed.
func (l *link) progress() (answers uint64, owes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers, len(l.sent) > 0
}

// others returns all addresses but one.
func (c *Client) others(addr string) (others []string) {
	for _, a := range c.addrs {
		if a != addr {
			others = append(others, a)
		}
	}
	return others
}
