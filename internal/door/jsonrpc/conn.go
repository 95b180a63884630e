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

// errBroken ends a connection without an answer: what was to be told is not known, such as when the view of accounts
// has failed after a command.
var errBroken = errors.New("rpc: an answer is not known")

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

// run is a number of requests one behind the other, of which each is a command or refused already: what comes to be
// answered is the same whether they are executed together or one by one, but together it costs less. Reads, and what
// changes the connection, are no part of one.
type run struct {
	calls    []*call
	commands int // how many of them are to be executed
	taken    int // requests since the client was last slowed down, those that are no part of it too
}

// runMax is how many requests are executed together at the most. A read buffer holds fewer of usual length.
const runMax = 64

const (
	// underWayMax is how many requests of a connection wait for their answers before it is no longer read from.
	underWayMax = 1024

	// underWayBytesMax is how many bytes of requests wait for their answers before that: what was asked for is kept.
	underWayBytesMax = 1 << 20

	// watchedMax is how many accounts a connection has the view watch. One that uses more has the view forget them, some
	// minutes later, and begins again.
	watchedMax = 1000
)

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

// request is a well-formed message of a client.
type request struct {
	id     []byte // as sent
	method *method
	args   args
}

// access is the right that a method needs.
type access uint8

const (
	forAll     access = iota // no right, not even a token
	forBearers               // any token
	forMarket                // a token that may read market data
	forAccount               // a token that may act for the param account
)

// method describes and implements a method of the API.
type method struct {
	name   string
	doc    string
	access access
	params []param
	result []field // members of the result besides seq

	// needs returns a fault if a param is missing that other params make necessary. check returns a fault if the
	// values do not go together. Both may be nil.
	needs func(m *method, a *args) *fault
	check func(m *method, a *args) *fault

	// begin does the part of the method that takes effect in the order of requests. The goroutine that reads the
	// connection calls it. It may be nil. answer waits until the result is durable, and appends the result's
	// members. The goroutine that answers calls it. An error of answer that is not a fault ends the connection.
	begin  func(c *conn, k *call) *fault
	answer func(c *conn, ctx context.Context, k *call, b []byte) ([]byte, error)
	reads  bool // answer reads what commands change, so commands after it wait for it
}

// methods lists all methods. init sets it, because the methods' functions refer to it.
var methods []method

// methodNamed returns the method with a name, or nil.
func methodNamed(name string) *method {
	for i := range methods {
		if methods[i].name == name {
			return &methods[i]
		}
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

// over reports whether nothing more is answered. Its caller holds mu.
func (c *conn) over() bool { return c.ended || c.broken }

// full reports whether as much is under way as may be. Its caller holds mu.
func (c *conn) full() bool { return c.queue.Len() >= underWayMax || c.bytes >= underWayBytesMax }
