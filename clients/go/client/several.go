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
	// addressesMax is the maximum number of addresses in a list.
	addressesMax = 16

	// switchTime is the default of SwitchTime. Other addresses are asked because the kernel of a machine that hangs
	// still accepts connections, while the exchange on it never answers.
	switchTime = 500 * time.Millisecond

	// searchPauseMax is the longest pause between two attempts to connect to one address in a search. It is short
	// because a cluster without a leader elects one within about a second.
	searchPauseMax = 200 * time.Millisecond

	// silentTicks is how often within its patience a link is checked.
	silentTicks = 5
)

// errSilent is the reason for the end of a link that a link to another address replaces.
var errSilent = errors.New("a reply is overdue, and another address accepts orders")

// nobodyError has, for each of several addresses, the reason why the connection failed.
type nobodyError struct{ why []error }

func (e *nobodyError) Error() string {
	var texts []string
	for _, err := range e.why {
		texts = append(texts, strings.TrimPrefix(err.Error(), "client: "))
	}
	return "client: no address accepts orders: " + strings.Join(texts, "; ")
}

func (e *nobodyError) Unwrap() []error { return e.why }

// split returns the addresses of a comma-separated list.
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

// search looks for an address that accepts orders, for up to RetryTime.
func (o *Options) search(ctx context.Context, addrs []string) (*Conn, string, error) {
	if o.RetryTime > 0 {
		within, cancel := context.WithTimeout(ctx, o.RetryTime)
		defer cancel()
		return o.find(within, addrs)
	}
	return o.find(ctx, addrs)
}

// found is the result of the attempts to connect to one address.
type found struct {
	conn *Conn
	addr string
	err  error
}

// find tries all addresses at the same time, so that one that hangs does not delay the others, and repeatedly if
// RetryTime is above 0. It returns the first connection that answers, and its address. When it returns, all its
// goroutines have ended. The error is one that a retry cannot fix, or a *nobodyError when ctx has ended.
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

// pursue tries one address until it answers, ctx ends, or a retry would fail for the same reason.
func (o *Options) pursue(ctx context.Context, addr string) found {
	limit, pause := min(o.switchTime(), o.DialTimeout), o.PauseMin
	var last error
	for {
		conn, err := o.attempt(ctx, addr, limit)
		switch {
		case err == nil:
			return found{conn: conn, addr: addr}
		case last == nil || ctx.Err() == nil:
			last = err // after the end of ctx, the earlier error is more useful than ctx's
		}
		if o.RetryTime <= 0 || final(err) || ctx.Err() != nil {
			return found{addr: addr, err: last}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			limit = min(2*limit, o.DialTimeout) // a distant address needs more time
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		case <-ctx.Done():
		}
		pause = min(2*pause, o.PauseMax, searchPauseMax)
	}
}

// attempt connects to one address and waits for the answer to a frame without effect, within limit.
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

// switchTime returns SwitchTime, or DialTimeout if SwitchTime is negative.
func (o *Options) switchTime() time.Duration {
	if o.SwitchTime < 0 {
		return o.DialTimeout
	}
	return o.SwitchTime
}

// several reports whether the client has more than one address.
func (c *Client) several() bool { return len(c.addrs) > 1 }

// elsewhere waits until there is a call to send, and makes a link to an address that accepts orders. It returns nil
// if the client is closed first. The first attempt follows without a pause if the previous link had an answer.
func (c *Client) elsewhere(w *wait, answered bool) *link {
	for c.waitForWork() && (answered || w.pause(c)) {
		answered = false
		if !c.pending() {
			continue // the call's caller has given up
		}
		ctx, cancel := context.WithDeadline(c.open, c.firstExpiry())
		if c.options.RetryTime <= 0 {
			ctx, cancel = context.WithCancel(c.open) // find then tries each address once
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

// firstExpiry returns when the first call of the queue will have waited for RetryTime.
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

// bear sets the patience of the next link. It grows while the client switches often: if two addresses of the list
// lead to the same slow exchange, the client must not switch between them for ever.
func (c *Client) bear(l *link) {
	switch {
	case l.successor != nil && time.Since(l.began) < c.options.ReplyTimeout:
		c.patience = min(2*c.patience, c.options.ReplyTimeout)
	default:
		c.patience = c.options.SwitchTime
	}
}

// watch looks for another address while replies are overdue. If it finds one, it sets l.successor to a link to it and
// ends this one.
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
		if quiet <= silentTicks { // the first tick may follow a sent frame at once
			continue
		}
		quiet = 0
		within, stop := context.WithTimeout(ctx, l.patience)
		conn, addr, err := c.options.find(within, c.others(l.addr))
		stop()
		if err != nil {
			continue // no other address accepts orders, so this exchange may only be slow
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

// progress returns the number of replies received, and whether a call is unanswered.
func (l *link) progress() (answers uint64, owes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers, len(l.sent) > 0
}

// others returns all addresses except one.
func (c *Client) others(addr string) (others []string) {
	for _, a := range c.addrs {
		if a != addr {
			others = append(others, a)
		}
	}
	return others
}
