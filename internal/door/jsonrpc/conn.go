package jsonrpc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/auth"
	"outcry/internal/door"
	"outcry/internal/door/websocket"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/process/queue"
)

const (
	// underWayMax is how many requests of a connection wait for their answers before it is no longer read from.
	underWayMax = 1024

	// underWayBytesMax is how many bytes of requests wait for their answers before that: what was asked for is kept.
	underWayBytesMax = 1 << 20

	// watchedMax is how many accounts a connection has the view watch. One that uses more has the view forget them, some
	// minutes later, and begins again.
	watchedMax = 1000
)

// errBroken ends a connection without an answer: what was to be told is not known, such as when the view of accounts
// has failed after a command.
var errBroken = errors.New("rpc: an answer is not known")

// call is a request on its way.
type call struct {
	request
	size    int         // bytes of the message
	fault   *fault      // why it is refused; nil so far
	err     error       // why it cannot be answered; nil so far
	last    bool        // the connection is closed behind its answer: no token was shown that is taken
	mark    engine.Mark // of what was there when it came, or when it was executed
	grant   *auth.Grant // of auth, if it was taken
	pending door.Pending

	// What is executed, and what it came to, of a method that executes anything.
	asked [1]engine.Request
	came  [1]door.Outcome
}

// calls are those that are not on their way.
var calls = sync.Pool{New: func() any { return new(call) }}

// conn is a connection. One goroutine reads requests and executes them; another one, which is there while answers are
// due, answers them in order.
type conn struct {
	door   *Door
	socket *websocket.Conn
	ctx    context.Context // ends when there is nobody to answer any more
	cancel context.CancelFunc

	// The reader's.
	caller    *door.Caller       // nil before there is an exchange to enter
	late      *time.Timer        // closes the connection if no token is shown; nil if none needs to be
	grant     *auth.Grant        // nil: no token was shown yet, or nobody asks for one
	stopGrant func() bool        // stops what is to happen when it ends
	one       exchange.AccountID // the account that params may leave out, "" for none
	cancels   bool               // orders that do not say cod are canceled when the connection ends
	watched   map[exchange.AccountID]func()
	run       run // commands that were read, and are not executed yet

	told uint64 // the newest seq that was told; the answering goroutine's, of which there is at most one

	subsMu sync.Mutex         // guards subs, which the answering goroutine alone writes to
	subs   map[string]*reader // by channel
	strict atomic.Int32       // how many of them miss nothing: the connection is cut if it is too slow for them

	mu        sync.Mutex // guards what follows
	changed   sync.Cond
	queue     queue.Queue[*call]
	answering bool // a goroutine answers
	bytes     int  // of the messages in queue
	reads     int  // calls in queue whose methods read
	ended     bool // nothing more is read
	broken    bool // nothing is answered any more
}

func (d *Door) newConn(s *websocket.Conn, grant *auth.Grant) *conn {
	c := &conn{door: d, socket: s, subs: make(map[string]*reader)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.changed.L = &c.mu
	c.setGrant(grant)
	s.OnSlow(c.slow)
	return c
}

// serve reads requests until the connection ends, and answers all that it has read.
func (c *conn) serve() {
	defer c.end()
	if c.door.options.Tokens != nil && c.grant == nil {
		c.late = time.AfterFunc(authTimeout, c.unproved)
		defer c.late.Stop()
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
		if !c.take(text) || !c.goesOn() && !c.execute() {
			return
		}
	}
}

// prepare reads the params, and says why the request is refused before anything is done.
func (c *conn) prepare(k *call) *fault {
	m := k.method
	guarded := c.door.options.Tokens != nil && m.access != forAll
	if guarded && c.grant == nil {
		return wrong(unauthenticated, textUnauthenticated)
	}
	if f := m.read(&k.args, c.one); f != nil {
		return f
	}
	switch m.access {
	case forMarket:
		return c.mayRead()
	case forAccount:
		if f := c.mayActFor(k.args.Account); f != nil {
			return f
		}
		return c.door.ready()
	case forBearers:
		return c.mayHear(k)
	case forAll:
	}
	return nil
}

// mayChange reports whether a method executes a command that may write a record.
func (c *conn) mayChange(m *method) bool { return m.access == forAccount && !m.reads }

// mark returns what must be durable before anything that is read from now on may be sent.
func (c *conn) mark() engine.Mark {
	if s := c.door.options.Sessions(); s != nil {
		return s.Mark()
	}
	return engine.Mark{}
}

// waitForReads waits until what was asked before has been read: so that no answer has a higher seq than the record of a
// command behind it. It reports false if the connection has ended.
func (c *conn) waitForReads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.reads > 0 && !c.over() {
		c.changed.Wait()
	}
	return !c.over()
}

// over reports whether nothing more is answered. Its caller holds mu.
func (c *conn) over() bool { return c.ended || c.broken }

// full reports whether as much is under way as may be. Its caller holds mu.
func (c *conn) full() bool { return c.queue.Len() >= underWayMax || c.bytes >= underWayBytesMax }

// enqueue has calls answered, each once there is room. It reports false if the connection has ended.
func (c *conn) enqueue(calls ...*call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range calls {
		for c.full() && !c.over() {
			c.changed.Wait()
		}
		if c.over() {
			return false
		}
		c.queue.Push(k)
		c.bytes += k.size
		if k.fault == nil && k.method.reads {
			c.reads++
		}
		if !c.answering {
			c.answering = true
			go c.answerAll()
		}
	}
	return true
}

// finish waits until all that was read is answered.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.answering {
		c.changed.Wait()
	}
}

// end ends what the connection has: it is the reader's last.
func (c *conn) end() {
	c.mu.Lock()
	c.ended = true
	c.changed.Broadcast()
	c.mu.Unlock()
	if c.socket.Ended() {
		c.cancel() // nobody can be answered
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
