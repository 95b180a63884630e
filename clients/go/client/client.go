package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Client trades on an exchange over one connection at a time, which it makes again
// when it has broken. Its methods may be called from any goroutine.
//
// Frames are sent in the order in which they were given to it, and take effect in that
// order; those that are sent again after a connection has broken come first.
type Client struct {
	addrs   []string // of exchanges, of which one takes orders
	options Options
	places  chan struct{} // one taken for each call that has no end
	wake    chan struct{} // has one value when there may be something in the queue
	open    context.Context
	close   context.CancelFunc
	running sync.WaitGroup

	// patience is how long the next link may owe a reply before other addresses are asked. The
	// goroutine that serves links guards it.
	patience time.Duration

	// mu guards what follows.
	mu     sync.Mutex
	queue  []*Call // to be sent, oldest first; no more than places
	closed bool
	stats  Stats
}

// Dial connects to the exchange at addr, "host:port", and returns a Client. Close ends
// it. The error is DialConn's; there is no second try of a single address. ctx is for the
// connection alone.
//
// addr may be several addresses with commas between them, those of the nodes of a cluster:
// the Client connects to the one that takes orders, as DialConn does. It looks for another
// one when its connection breaks, and when a reply is owed for Options.SwitchTime; if it
// finds one, it sends there again what may be sent again.
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

// Stats are what a Client's connections have come to.
type Stats struct {
	Addr        string // of the last connection
	Connections uint64 // that were made
	SentAgain   uint64 // frames, after a connection had broken; each time counts
}

// Stats returns what its connections have come to so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Close closes the connection and ends the Client. Calls without an answer end with a
// *Broken, all others with ErrClosed. When it returns, nothing of the Client runs any
// more. It returns nil, and may be called again.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.running.Wait()
	return nil
}

// Do sends commands in one frame and returns their results, in their order, which must
// not be changed. Either all of them create (accounts, symbols, placements) or all are
// of one account. Each is done or refused on its own, one after the other: if one
// is refused, the error is nil and its result says so.
//
// The error is a *Broken, a *ProtocolError, or a *GaveUp where ctx ends first. Any
// other says why commands are no frame, or is ErrClosed; then nothing was sent.
func (c *Client) Do(ctx context.Context, commands ...Command) ([]Result, error) {
	call, err := c.Send(ctx, commands...)
	if err != nil {
		return nil, err
	}
	return call.waitOrLeave(ctx)
}

// Send is Do without the wait for the answer: Wait of the Call returns it. It waits
// while as many frames are under way as Options.Depth allows; the error is a *GaveUp
// where ctx ends first.
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

// enqueue puts a call at the end of the queue. ok is false if the client is closed.
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

// rouse wakes the goroutine that looks after the queue.
func (c *Client) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// one sends one command and returns its result, or the error that it has come to.
func (c *Client) one(ctx context.Context, command Command) (*Result, error) {
	results, err := c.Do(ctx, command)
	if err != nil {
		return nil, err
	}
	return &results[0], results[0].Err()
}

// OpenAccount opens an account with a balance. Errors are a *Refused and those of Do,
// here as in the methods below.
func (c *Client) OpenAccount(ctx context.Context, account string, balance Decimal) error {
	_, err := c.one(ctx, OpenAccount(account, balance))
	return err
}

// MakeSymbol makes a symbol, if it is new.
func (c *Client) MakeSymbol(ctx context.Context, symbol string) error {
	_, err := c.one(ctx, MakeSymbol(symbol))
	return err
}

// Place adds shares to an account's position, and makes the symbol if it is new.
func (c *Client) Place(ctx context.Context, symbol, account string, shares Decimal) error {
	_, err := c.one(ctx, Place(symbol, account, shares))
	return err
}

// Buy places an order to buy, and returns its number.
func (c *Client) Buy(ctx context.Context, account, symbol string, shares, limit Decimal) (OrderID, error) {
	return c.Order(ctx, Buy(account, symbol, shares, limit))
}

// Sell places an order to sell, and returns its number.
func (c *Client) Sell(ctx context.Context, account, symbol string, shares, limit Decimal) (OrderID, error) {
	return c.Order(ctx, Sell(account, symbol, shares, limit))
}

// Order places an order that Buy or Sell has made, perhaps with a ref, and returns its
// number.
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

// Query asks what has become of an order.
func (c *Client) Query(ctx context.Context, account string, order OrderID) (Status, error) {
	return c.status(ctx, Query(account, order))
}

// QueryRef is Query for the account's order with a ref.
func (c *Client) QueryRef(ctx context.Context, account, ref string) (Status, error) {
	return c.status(ctx, QueryRef(account, ref))
}

// Cancel cancels what is open of an order, and returns what has become of it.
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
