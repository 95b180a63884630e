package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outcry/clients/go/client"
	"outcry/internal/door/xml/wire"
)

// replyBytesMax is the largest reply accepted.
const replyBytesMax = 16 << 20

// lostError means that the connection has broken: unanswered commands may or may not have been executed.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// link is a connection to the exchange.
type link struct {
	conn    *client.Conn
	addr    string
	timeout time.Duration
}

// dial connects to the exchange. Its error is a *lostError.
func dial(o *Options) (*link, error) {
	how := o.Client
	how.DialTimeout, how.ReplyBytesMax = o.Timeout, replyBytesMax
	conn, err := client.DialConn(context.Background(), o.Addr, how)
	if err != nil {
		return nil, &lostError{fmt.Errorf("is the exchange running? %w", err)}
	}
	return &link{conn: conn, addr: o.Addr, timeout: o.Timeout}, nil
}

func (l *link) close() { l.conn.Close() }

// send sends frames without waiting for their answers. Its error is a *lostError.
func (l *link) send(frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	if err := l.conn.SetDeadline(time.Now().Add(l.timeout)); err != nil {
		return &lostError{err}
	}
	for _, f := range frames {
		l.conn.SendFrame(f)
	}
	if err := l.conn.Flush(); err != nil {
		return &lostError{err}
	}
	return nil
}

// receive reads the next reply, which must have want answers. Its error is a *lostError, or describes a
// violation of the protocol.
func (l *link) receive(want int) ([]wire.Answer, error) {
	reply, err := l.conn.NextReply()
	if err != nil {
		return nil, &lostError{fmt.Errorf("answer of %s: %w", l.addr, err)}
	}
	answers, err := wire.ParseReply(reply)
	if err != nil {
		return nil, err
	}
	if len(answers) == 1 && answers[0].Kind == "error" && want != 1 {
		// The exchange sends a reason before it closes the connection.
		return nil, &lostError{errors.New(answers[0].Error)}
	}
	if len(answers) != want {
		return nil, fmt.Errorf("%s answered %d requests with %d answers", l.addr, want, len(answers))
	}
	return answers, nil
}

// ask sends one frame and returns its answers. It returns the errors of send and receive.
func (l *link) ask(frame []byte, want int) ([]wire.Answer, error) {
	if err := l.send([][]byte{frame}); err != nil {
		return nil, err
	}
	return l.receive(want)
}
