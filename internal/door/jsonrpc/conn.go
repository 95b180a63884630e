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

// errBroken ends a connection whose next answer cannot be made, for example because the view of accounts has failed
// after a command was executed.
var errBroken = errors.New("rpc: an answer is not known")

// conn is a connection. One goroutine, the reader, reads requests and executes them. Another one answers them in
// order; it runs while calls are queued.
type conn struct {
	door   *Door
	socket *websocket.Conn
	ctx    context.Context // ends when no answer can be sent any more
	cancel context.CancelFunc

	// Only the reader uses the fields below.
	caller    *door.Caller                  // nil until the server accepts orders
	authTimer *time.Timer                   // closes the connection without a token; nil if none is required
	grant     *auth.Grant                   // nil if no token is required, and before the client has shown one
	stopGrant func() bool                   // stops watching for the end of grant; nil without one
	one       exchange.AccountID            // the account of requests without the param account; "" for none
	cancels   bool                          // orders without cod are canceled when the connection ends
	watched   map[exchange.AccountID]func() // accounts that the view watches; each func ends the watch
	run       run                           // commands that were read and are not executed yet

	sentSeq uint64 // the highest seq of an answer; only the answering goroutine uses it

	subsMu sync.Mutex         // guards subs; only the answering goroutine writes to it
	subs   map[string]*reader // the subscriptions, by channel
	strict atomic.Int32       // number of subscriptions that may miss nothing; slow clients of these are cut

	mu        sync.Mutex // guards the fields below
	changed   sync.Cond  // signaled at each change of the fields below
	queue     queue.Queue[*call]
	answering bool // the answering goroutine runs
	bytes     int  // size of the requests in queue
	reads     int  // calls of reading methods that are not answered yet
	ended     bool // the reader has ended, or must end
	broken    bool // no answer is sent any more
}

// run is a run of consecutive requests that are executed together, which costs less than one by one and leads to the
// same answers. Each is a command, or is already refused. Reads, and requests that change the connection, end a run.
type run struct {
	calls    []*call
	commands int // number of calls waiting to be executed
	read     int // requests read since the last check of the client's rate, including those outside the run
}

// runMax is how many requests are executed together at most. A read buffer holds fewer of the usual length.
const runMax = 64

const (
	// underWayMax is how many requests of a connection may wait for their answers. At the limit, the connection is not
	// read.
	underWayMax = 1024

	// underWayBytesMax is the same limit in bytes of requests, because their params are kept until they are answered.
	underWayBytesMax = 1 << 20

	// watchedMax is how many accounts the view watches for a connection. A connection that uses more releases all of them
	// and starts again; the view forgets a released account a few minutes later.
	watchedMax = 1000
)

// call is a request, from the time it was read until it is answered.
type call struct {
	request
	size    int         // bytes of the message
	fault   *fault      // why the request is refused; nil if it is not
	err     error       // why no answer can be made; nil if one can
	last    bool        // the connection is closed after this answer, because the client has no valid token
	mark    engine.Mark // what must be durable before the answer is sent
	grant   *auth.Grant // the grant of a token that auth has accepted
	pending door.Pending

	// The command of a method that executes one, and its outcome. They are slices of one for Pending.Part.
	asked [1]engine.Request
	came  [1]door.Outcome
}

// calls holds answered calls for reuse.
var calls = sync.Pool{New: func() any { return new(call) }}

// request is a well-formed message of a client.
type request struct {
	id     []byte // id of the request, as sent
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

	// begin does the part of the method that takes effect in the order of requests. The reader calls it. It may be
	// nil. answer waits until the result is durable, and appends the result's members. The answering goroutine
	// calls it. An error of answer that is not a fault ends the connection.
	begin  func(c *conn, k *call) *fault
	answer func(c *conn, ctx context.Context, k *call, b []byte) ([]byte, error)
	reads  bool // answer reads data that commands change, so later commands wait for it
}

// methods lists all methods. init sets it, because the methods' functions refer to it.
var methods []method

// methodNamed returns the method with the given name, or nil.
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

// mark returns what must be durable before any data that was read up to now may be sent.
func (c *conn) mark() engine.Mark {
	if s := c.door.options.Sessions(); s != nil {
		return s.Mark()
	}
	return engine.Mark{}
}

// over reports whether the connection has ended or is broken. Its caller holds mu.
func (c *conn) over() bool { return c.ended || c.broken }

// full reports whether the queue has reached a limit. Its caller holds mu.
func (c *conn) full() bool { return c.queue.Len() >= underWayMax || c.bytes >= underWayBytesMax }
