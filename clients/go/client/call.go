package client

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Call is a frame that was given to a Client and may not be answered yet. Its methods may be called from
// any goroutine. Wait may be called more than once.
type Call struct {
	client   *Client
	commands []Command
	frame    []byte // XML
	answered chan struct{}

	// These are set before answered is closed and not changed afterwards.
	results []Result
	err     error

	// The client's mu guards these.
	tries   int       // attempts to send it, including the current one
	arrived int       // attempts in which it may have reached the exchange
	since   time.Time // time of the call; after the first attempt, the time when that attempt failed
	left    bool      // its caller no longer waits: it must not be resent

	// suspect means that the exchange closed a connection with an error text when this call's answer was
	// due, perhaps because of its frame. Only the goroutine that serves links uses it.
	suspect bool
}

// Done returns a channel that is closed when the answer or an error is available, so that Wait would not
// block.
func (c *Call) Done() <-chan struct{} { return c.answered }

// Commands returns the commands that were sent, with the refs that AutoRef added. The slice must not be
// changed.
func (c *Call) Commands() []Command { return c.commands }

// Wait waits for the answer and returns one result per command, in order. The results must not be changed.
// The error is a *Broken or a *ProtocolError, or a *GaveUp if ctx ends first. After a *GaveUp the call
// continues, and is still sent if it was not sent yet. Its MaybeDone is therefore true unless all commands
// are queries. Wait may then be called again.
func (c *Call) Wait(ctx context.Context) ([]Result, error) {
	if results, err, ended := c.outcome(ctx); ended {
		return results, err
	}
	return nil, c.gaveUp(ctx, true)
}

// outcome waits for the answer or until ctx ends. ended is false if ctx has ended and there is no answer
// yet.
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

// gaveUp returns the error for a caller whose context has ended.
func (c *Call) gaveUp(ctx context.Context, maybeSent bool) error {
	return &GaveUp{Sent: c.commands, MaybeDone: maybeSent && changes(c.commands), Err: ctx.Err()}
}

// waitOrLeave is Wait for a caller that will not wait again. If ctx ends first, a queued call is not sent,
// and the answer to a call that was sent is read and dropped.
func (c *Call) waitOrLeave(ctx context.Context) ([]Result, error) {
	if results, err, ended := c.outcome(ctx); ended {
		return results, err
	}
	return nil, c.gaveUp(ctx, c.leave())
}

// leave marks the call as abandoned and removes it from the queue. It reports whether the call was sent or
// is being sent. A call that it removes from the queue is not sent after that.
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

// doubt sets MaybeDone of the refused commands if the call may have reached the exchange more than once,
// since the first attempt may have been executed.
func (c *Call) doubt(results []Result) {
	for i := range results {
		if r := results[i].Refused; r != nil {
			r.MaybeDone = c.sentBefore() && changes(c.commands[i:i+1])
		}
	}
}

// sentBefore reports whether the call may have reached the exchange more than once.
func (c *Call) sentBefore() bool {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	return c.arrived > 1
}

// errLeft ends a call whose caller no longer waits.
var errLeft = errors.New("client: the caller no longer waits for the answer")

// end stores the outcome, wakes the waiting callers and frees the call's place. The current owner of the
// call, the queue or the link that sent it, calls end exactly once.
func (c *Call) end(results []Result, err error) {
	c.results, c.err = results, err
	close(c.answered)
	<-c.client.places
}

// fail ends the call without an answer. Callers hold the client's mu.
func (c *Call) fail(err error) {
	c.end(nil, &Broken{Sent: c.commands, MaybeDone: c.arrived > 0 && changes(c.commands), Err: err})
}
