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

// link is a Client's connection while there is one. Two goroutines serve it: the
// client's own sends, another reads.
type link struct {
	client *Client
	conn   *Conn
	addr   string
	ended  chan struct{} // closed when the reader has ended

	// Of a Client with several addresses.
	began     time.Time
	patience  time.Duration // how long replies may be owed before another address is asked
	successor *link         // to the address that takes over; serve has it when it returns

	// mu guards what follows. Each change of sent sets the deadline of what is owed.
	mu      sync.Mutex
	sent    []*Call     // without an answer, oldest first
	owed    []time.Time // until when, of each
	unsent  []*Call     // that a failed write did not send
	answers uint64      // replies that have come
	ending  bool        // the deadline stays as it is
	readErr error
}

func newLink(c *Client, conn *Conn, addr string) *link {
	return &link{client: c, conn: conn, addr: addr, ended: make(chan struct{})}
}

// serve sends and reads until the connection breaks, or the client is closed, and
// returns why. Then nothing of the link runs any more.
func (l *link) serve() error {
	go func() {
		defer close(l.ended)
		l.readErr = l.read()
		l.conn.Close() // a write that waits ends
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
		return l.readErr // the better reason: the exchange may have told it
	}
	return err
}

// Why a link has ended, beside what the network says.
var (
	errOwed    = errors.New("the exchange owes a reply for too long")
	errTooLate = errors.New("nothing more came")
	errHungUp  = errors.New("the exchange closed the connection without a word")
)

// write sends what is in the queue until the link ends or the client is closed.
func (l *link) write() error {
	c := l.client
	for {
		calls := c.take()
		if len(calls) == 0 {
			select {
			case <-c.wake:
				// Those whose answers came together are about to send again: together.
				runtime.Gosched()
			case <-l.ended:
				return errHungUp // the reader knows better
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
		_ = l.conn.SetWriteDeadline(now.Add(c.options.ReplyTimeout)) // the write fails if this does
		if n, err := l.conn.flush(); err != nil {
			l.cut(calls, n)
			return err
		}
		if calls[0].suspect && !l.alone(calls[0]) {
			return errHungUp
		}
	}
}

// alone waits for the answer to a call, before which nothing else is sent. ok is false
// if the link ends.
func (l *link) alone(call *Call) (ok bool) {
	select {
	case <-call.answered:
		return true
	case <-l.ended:
		return false
	}
}

// cut takes back those of the calls that were sent last whose frames did not leave
// whole: only n bytes did. A frame that is cut off has no effect.
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
	// They are the last of sent, unless something has answered what it cannot have.
	whole := max(0, len(l.sent)-(len(calls)-left))
	l.unsent = slices.Clone(l.sent[whole:])
	l.sent, l.owed = l.sent[:whole], l.owed[:whole]
}

// sending notes calls that are about to be sent.
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

// await has the reader wait as long as the oldest reply may be owed. Callers hold mu.
func (l *link) await() {
	var until time.Time // an idle connection may stay so
	if len(l.owed) > 0 {
		until = l.owed[0]
	}
	if !l.ending {
		_ = l.conn.SetReadDeadline(until) // the read fails if this does
	}
}

// lastChance leaves the reader a little time to find what has come.
func (l *link) lastChance() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	_ = l.conn.SetReadDeadline(time.Now().Add(lastWordsTime))
}

// read hands replies to the calls that they answer until the connection ends, and
// returns why.
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
			return newProtocolError("it is a reply that nobody asked for", reply)
		}
		results, err := resultsOf(call.commands, answers)
		if err != nil {
			return l.wrong(newProtocolError(err.Error(), reply), call)
		}
		call.doubt(results)
		call.end(results, nil)
	}
}

// wrong ends the call, if there is one, whose answer is none, and returns the error.
func (l *link) wrong(err *ProtocolError, call *Call) error {
	if call != nil {
		err.Sent = call.commands
		call.end(nil, err)
	}
	return err
}

// next takes the oldest call that was sent, nil if there is none.
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

// explain says why the reading ended.
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
