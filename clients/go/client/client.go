package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Client trades on an exchange over one connection at a time, and reconnects when the connection breaks.
// Its methods may be called from any goroutine.
//
// Frames are sent and take effect in the order in which they were given to the Client. Frames that are sent
// again after a connection broke go first.
type Client struct {
	addrs   []string // addresses of exchanges, of which one accepts orders
	options Options
	places  chan struct{} // holds a value for each call that has not ended
	wake    chan struct{} // holds a value when the queue may have calls
	open    context.Context
	close   context.CancelFunc
	running sync.WaitGroup

	// patience is how long the next link may wait for a reply before other addresses are tried. Only the
	// goroutine that serves links uses it.
	patience time.Duration

	// mu guards the fields below.
	mu     sync.Mutex
	queue  []*Call // calls to send, oldest first; at most cap(places)
	closed bool
	stats  Stats
}

// Dial connects to the exchange at addr, "host:port", and returns a Client. Call Close to end it. The error
// is that of DialConn; a single address is tried only once. ctx bounds the connecting only.
//
// addr may be several addresses separated by commas, those of the nodes of a cluster. The Client then
// connects to the node that accepts orders, as DialConn does. It looks for another one when its connection
// breaks, and when a reply is overdue by Options.SwitchTime. If it finds one, it sends the frames there
// again that are safe to repeat.
func Dial(ctx context.Context, addr string, o Options) (*Client, error) {
	o.setDefaults()
	addrs, err := split(addr)
	if err != nil {
		return nil, err
	}
	conn, addr, err := o.dialAny(ctx, addrs)
	if err != nil {
		return nil, err
	}
	c := &Client{addrs: addrs, patience: o.SwitchTime,
		options: o, places: make(chan struct{}, max(o.Depth, 1)), wake: make(chan struct{}, 1)}
	c.open, c.close = context.WithCancel(context.Background())
	c.running.Go(func() { c.run(newLink(c, conn, addr)) })
	return c, nil
}

// Stats counts the connections of a Client and the frames that it sent again.
type Stats struct {
	Addr        string // address of the last connection
	Connections uint64 // number of connections made
	SentAgain   uint64 // frames sent again after a connection broke; each repetition counts
}

// Stats returns the counts so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Close closes the connection and ends the Client. Calls without an answer end with a *Broken, later calls
// with ErrClosed. When Close returns, all goroutines of the Client have ended. It always returns nil and
// may be called again.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.running.Wait()
	return nil
}

// Do sends commands in one frame and returns their results, in order. The results must not be changed.
// Either all commands create something (accounts, symbols, placements) or all are for the same account. The
// exchange executes or refuses each command separately, in order. If it refuses a command, the error is nil
// and that command's result has the refusal.
//
// The error is a *Broken, a *ProtocolError, or a *GaveUp if ctx ends first. Any other error says why the
// commands are not a valid frame, or is ErrClosed; then nothing was sent.
func (c *Client) Do(ctx context.Context, commands ...Command) ([]Result, error) {
	call, err := c.Send(ctx, commands...)
	if err != nil {
		return nil, err
	}
	return call.waitOrLeave(ctx)
}

// Send is Do without the wait for the answer: Wait of the returned Call waits for it. Send blocks while
// Options.Depth frames are in flight. The error is a *GaveUp if ctx ends first.
func (c *Client) Send(ctx context.Context, commands ...Command) (*Call, error) {
	commands = slices.Clone(commands)
	if c.options.AutoRef {
		for i := range commands {
			if ref := commands[i].ownRef(); ref != nil && *ref == "" {
				*ref = rand.Text()
			}
		}
	}
	if err := check(commands); err != nil {
		return nil, err
	}
	call := &Call{client: c, commands: commands, frame: encode(commands), answered: make(chan struct{})}
	if n := len(call.frame); n > c.options.FrameBytesMax {
		return nil, fmt.Errorf("client: %s: a frame of %d bytes is over the limit of %d", describe(commands), n,
			c.options.FrameBytesMax)
	}
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		return nil, &GaveUp{Sent: commands, Err: ctx.Err()}
	case <-c.open.Done():
		return nil, ErrClosed
	}
	if !c.enqueue(call) {
		<-c.places
		return nil, ErrClosed
	}
	return call, nil
}

// enqueue appends a call to the queue. ok is false if the client is closed.
func (c *Client) enqueue(call *Call) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	call.since = time.Now()
	c.queue = append(c.queue, call)
	c.rouse()
	return true
}

// rouse wakes the goroutine that sends the queue.
func (c *Client) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// one sends one command and returns its result. A refusal is returned as an error.
func (c *Client) one(ctx context.Context, command Command) (*Result, error) {
	results, err := c.Do(ctx, command)
	if err != nil {
		return nil, err
	}
	return &results[0], results[0].Err()
}

// OpenAccount opens an account with a balance. The error is a *Refused or one of Do's, here and in the
// methods below.
func (c *Client) OpenAccount(ctx context.Context, account string, balance Decimal) error {
	_, err := c.one(ctx, OpenAccount(account, balance))
	return err
}

// MakeSymbol creates a symbol if it does not exist.
func (c *Client) MakeSymbol(ctx context.Context, symbol string) error {
	_, err := c.one(ctx, MakeSymbol(symbol))
	return err
}

// Place adds shares to an account's position, and creates the symbol if it does not exist.
func (c *Client) Place(ctx context.Context, symbol, account string, shares Decimal) error {
	_, err := c.one(ctx, Place(symbol, account, shares))
	return err
}

// Buy places a buy order and returns its number.
func (c *Client) Buy(ctx context.Context, account, symbol string, shares, limit Decimal) (OrderID, error) {
	return c.Order(ctx, Buy(account, symbol, shares, limit))
}

// Sell places a sell order and returns its number.
func (c *Client) Sell(ctx context.Context, account, symbol string, shares, limit Decimal) (OrderID, error) {
	return c.Order(ctx, Sell(account, symbol, shares, limit))
}

// Order places an order made by Buy or Sell, with or without a ref, and returns its number.
func (c *Client) Order(ctx context.Context, order Command) (OrderID, error) {
	if order.Kind != KindBuy && order.Kind != KindSell {
		return 0, fmt.Errorf("client: %v: this is not an order", order)
	}
	r, err := c.one(ctx, order)
	if err != nil {
		return 0, err
	}
	return r.Order, nil
}

// Query returns the status of an order.
func (c *Client) Query(ctx context.Context, account string, order OrderID) (Status, error) {
	return c.status(ctx, Query(account, order))
}

// QueryRef is Query for the account's order with a ref.
func (c *Client) QueryRef(ctx context.Context, account, ref string) (Status, error) {
	return c.status(ctx, QueryRef(account, ref))
}

// Cancel cancels the open part of an order and returns the order's status.
func (c *Client) Cancel(ctx context.Context, account string, order OrderID) (Status, error) {
	return c.status(ctx, Cancel(account, order))
}

// CancelRef is Cancel for the account's order with a ref.
func (c *Client) CancelRef(ctx context.Context, account, ref string) (Status, error) {
	return c.status(ctx, CancelRef(account, ref))
}

func (c *Client) status(ctx context.Context, command Command) (Status, error) {
	r, err := c.one(ctx, command)
	if err != nil {
		return Status{}, err
	}
	return r.Status, nil
}
