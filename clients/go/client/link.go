package client

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"outcry/internal/door/xml/wire"
)

// link is one connection of a Client. Two goroutines serve it: the client's own writes, and another reads.
type link struct {
	client *Client
	conn   *Conn
	addr   string
	ended  chan struct{} // closed when the reader has ended

	// These fields are for a Client with several addresses.
	began     time.Time
	patience  time.Duration // how long replies may be overdue before other addresses are tried
	successor *link         // connection to the address that replaces this one; set before serve returns

	// mu guards the fields below. Each change of sent also sets the read deadline.
	mu      sync.Mutex
	sent    []*Call     // calls without an answer, oldest first
	owed    []time.Time // for each call of sent, when its reply is overdue
	unsent  []*Call     // calls that a failed write did not send completely
	answers uint64      // number of replies received
	ending  bool        // the read deadline must not change any more
	readErr error
}

func newLink(c *Client, conn *Conn, addr string) *link {
	return &link{client: c, conn: conn, addr: addr, ended: make(chan struct{})}
}

// serve sends and reads until the connection breaks or the client is closed, and returns the reason. No goroutine of
// the link runs after that.
func (l *link) serve() error {
	go func() {
		defer close(l.ended)
		l.readErr = l.read()
		l.conn.Close() // ends a write that waits
	}()
	stop := context.AfterFunc(l.client.open, func() { l.conn.Close() })
	defer stop()
	var watching sync.WaitGroup
	if l.client.several() && l.client.options.SwitchTime > 0 {
		l.began, l.patience = time.Now(), l.client.patience
		watching.Go(l.watch)
	}
	err := l.write()
	l.lastChance()
	<-l.ended
	watching.Wait()
	switch {
	case l.client.open.Err() != nil:
		return ErrClosed
	case l.successor != nil:
		return errSilent
	case !errors.Is(l.readErr, errTooLate):
		return l.readErr // it may contain the exchange's reason, which err cannot
	}
	return err
}

// Reasons for the end of a link, in addition to errors of the network.
var (
	errOwed    = errors.New("a reply is overdue")
	errTooLate = errors.New("no more replies arrived")
	errHungUp  = errors.New("the exchange closed the connection without a reason")
)

// write sends the calls of the queue until the link ends or the client is closed.
func (l *link) write() error {
	c := l.client
	for {
		calls := c.dequeue()
		if len(calls) == 0 {
			select {
			case <-c.wake:
				// Callers whose answers arrived together are about to send again: let all of them queue their calls.
				runtime.Gosched()
			case <-l.ended:
				return errHungUp // readErr has the exact reason
			case <-c.open.Done():
				return ErrClosed
			}
			continue
		}
		now := time.Now()
		for _, call := range calls {
			l.conn.SendFrame(call.frame)
		}
		l.sending(calls, now)
		_ = l.conn.SetWriteDeadline(now.Add(c.options.ReplyTimeout)) // if this fails, the write fails too
		if n, err := l.conn.flush(); err != nil {
			l.cut(calls, n)
			return err
		}
		if calls[0].suspect && !l.alone(calls[0]) {
			return errHungUp
		}
	}
}

// alone waits for the answer to a call, so that nothing else is sent before the answer. ok is false if the link ends.
func (l *link) alone(call *Call) (ok bool) {
	select {
	case <-call.answered:
		return true
	case <-l.ended:
		return false
	}
}

// cut moves calls whose frames were not sent completely from sent to unsent. calls are the last ones of sent, of
// which n bytes were sent. The exchange ignores a partial frame.
func (l *link) cut(calls []*Call, n int) {
	left := 0
	for left < len(calls) {
		frame := len(calls[left].frame)
		n -= len(strconv.Itoa(frame)) + len("\n") + frame
		if n < 0 {
			break
		}
		left++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// calls are the last ones of sent, unless the peer has replied to frames that it cannot have received.
	whole := max(0, len(l.sent)-(len(calls)-left))
	l.unsent = slices.Clone(l.sent[whole:])
	l.sent, l.owed = l.sent[:whole], l.owed[:whole]
}

// sending adds calls that are about to be sent to sent.
func (l *link) sending(calls []*Call, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := len(l.sent) == 0
	l.sent = append(l.sent, calls...)
	for range calls {
		l.owed = append(l.owed, now.Add(l.client.options.ReplyTimeout))
	}
	if idle {
		l.await()
	}
}

// await sets the read deadline to the time when the oldest reply is overdue. Callers hold mu.
func (l *link) await() {
	var until time.Time // zero: an idle connection has no deadline
	if len(l.owed) > 0 {
		until = l.owed[0]
	}
	if !l.ending {
		_ = l.conn.SetReadDeadline(until) // if this fails, the read fails too
	}
}

// lastChance gives the reader lastWordsTime to read the data that has already arrived.
func (l *link) lastChance() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	_ = l.conn.SetReadDeadline(time.Now().Add(lastWordsTime))
}

// read passes each reply to its call until the connection ends, and returns why.
func (l *link) read() error {
	for {
		reply, err := l.conn.NextReply()
		if err != nil {
			return l.explain(err)
		}
		answers, err := wire.ParseReply(reply)
		if err != nil {
			return l.wrong(newProtocolError(err.Error(), reply), l.next())
		}
		if last := lastWords(answers); last != nil {
			return unshown(last)
		}
		call := l.next()
		if call == nil {
			return newProtocolError("it is a reply without a request", reply)
		}
		results, err := resultsOf(call.commands, answers)
		if err != nil {
			return l.wrong(newProtocolError(err.Error(), reply), call)
		}
		call.doubt(results)
		call.end(results, nil)
	}
}

// wrong ends the call, unless it is nil, with a protocol error about its reply, and returns the error.
func (l *link) wrong(err *ProtocolError, call *Call) error {
	if call != nil {
		err.Sent = call.commands
		call.end(nil, err)
	}
	return err
}

// next removes the oldest call of sent and returns it, nil if there are none.
func (l *link) next() *Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sent) == 0 {
		return nil
	}
	call := l.sent[0]
	l.sent[0] = nil
	l.sent, l.owed = l.sent[1:], l.owed[1:]
	l.answers++
	if len(l.sent) == 0 || !l.conn.Buffered() {
		l.await()
	}
	return call
}

// explain returns the reason for an error of NextReply.
func (l *link) explain(err error) error {
	var protocol *ProtocolError
	if errors.As(err, &protocol) {
		return l.wrong(protocol, l.next())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var late interface{ Timeout() bool }
	switch {
	case errors.Is(err, io.EOF):
		return errHungUp
	case errors.As(err, &late) && late.Timeout() && l.ending:
		return errTooLate
	case errors.As(err, &late) && late.Timeout():
		return errOwed
	}
	return err
}
