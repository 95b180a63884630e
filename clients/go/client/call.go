package client

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Call is a frame that has been given to a Client and may not have its answer yet. Its
// methods may be called from any goroutine, and Wait more than once.
type Call struct {
	client   *Client
	commands []Command
	frame    []byte // XML
	answered chan struct{}

	// Set before answered is closed, and not changed after that.
	results []Result
	err     error

	// The client's mu guards these.
	tries   int       // how often it was tried to send it, the present try included
	arrived int       // how often it may have arrived
	since   time.Time // when it was given to the client; once it was tried, when that first failed
	left    bool      // nobody waits: it is not to be sent again

	// suspect says that the exchange closed a connection with a reason when this call's
	// answer was due: perhaps because of its frame. The goroutine that serves links guards it.
	suspect bool
}

// Done returns a channel that is closed when Wait would not wait.
func (c *Call) Done() <-chan struct{} { return c.answered }

// Commands returns what was sent, with the refs that AutoRef has made. It must not be
// changed.
func (c *Call) Commands() []Command { return c.commands }

// Wait waits for the answer and returns a result for each command, in their order,
// which must not be changed. The error is a *Broken or a *ProtocolError, or a *GaveUp
// where ctx ends first. The call goes on then: also what was not sent yet will be, so
// that MaybeDone is true of all that changes anything. Wait may be called again.
func (c *Call) Wait(ctx context.Context) ([]Result, error) {
	if results, err, ended := c.outcome(ctx); ended {
		return results, err
	}
	return nil, c.gaveUp(ctx, true)
}

// outcome waits for the answer, or until ctx ends: then ended is false, unless there is
// one all the same.
func (c *Call) outcome(ctx context.Context) (results []Result, err error, ended bool) {
	select {
	case <-c.answered:
	case <-ctx.Done():
		select {
		case <-c.answered:
		default:
			return nil, nil, false
		}
	}
	return c.results, c.err, true
}

// gaveUp is the error of somebody who waits no longer.
func (c *Call) gaveUp(ctx context.Context, maybeSent bool) error {
	return &GaveUp{Sent: c.commands, MaybeDone: maybeSent && changes(c.commands), Err: ctx.Err()}
}

// waitOrLeave is Wait for somebody who will not come back: where ctx ends first, what
// is in the queue will not be sent, and the answer to what was sent is read and dropped.
func (c *Call) waitOrLeave(ctx context.Context) ([]Result, error) {
	if results, err, ended := c.outcome(ctx); ended {
		return results, err
	}
	return nil, c.gaveUp(ctx, c.leave())
}

// leave says that nobody waits for the answer any more, and reports whether the call was
// sent, or is being sent: of what it takes out of the queue, nothing can be after that.
func (c *Call) leave() (maybeSent bool) {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	c.left = true
	at := slices.Index(c.client.queue, c)
	if at < 0 {
		return true
	}
	c.client.queue = slices.Delete(c.client.queue, at, at+1)
	c.end(nil, errLeft)
	return c.arrived > 0
}

// doubt marks what is refused of a call that may have arrived more than once: the first
// time it may have been done.
func (c *Call) doubt(results []Result) {
	for i := range results {
		if r := results[i].Refused; r != nil {
			r.MaybeDone = c.sentBefore() && changes(c.commands[i:i+1])
		}
	}
}

// sentBefore reports whether the call may have arrived more than once.
func (c *Call) sentBefore() bool {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	return c.arrived > 1
}

// errLeft is the end of a call that nobody waits for.
var errLeft = errors.New("client: nobody waits for the answer")

// end gives the call its end and its place to another. It is called once, by the one that
// has the call: the queue, or the link that has sent it.
func (c *Call) end(results []Result, err error) {
	c.results, c.err = results, err
	close(c.answered)
	<-c.client.places
}

// fail ends the call without an answer. Callers hold the client's mu.
func (c *Call) fail(err error) {
	c.end(nil, &Broken{Sent: c.commands, MaybeDone: c.arrived > 0 && changes(c.commands), Err: err})
}
