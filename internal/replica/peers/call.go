package peers

import (
	"context"
	"fmt"
	"net"
	"time"
)

// caller makes connections to peers.
type caller struct {
	node     uint64
	hello    func() Hello
	judge    func(Hello) error
	security Security
}

// call is an outgoing connection on which both hellos were accepted. It is closed when the context
// of open is done.
type call struct {
	net.Conn
	frames frameReader
	stop   func() bool
}

// Close closes the connection.
func (c *call) Close() error {
	c.stop()
	return c.Conn.Close()
}

// open connects to a node. The error is a *RefusedError if one side refuses the other. Otherwise
// the node could not be reached, is not the expected one, or did not answer in time.
func (c *caller) open(ctx context.Context, to uint64, address string, use purpose, request []byte) (*call, error) {
	hello, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(hello, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("peers: node %d: %w", to, err)
	}
	conn, leaf, err := c.security.secure(hello, raw, true)
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("peers: node %d at %s: %w", to, address, err)
	}
	made := &call{Conn: conn, frames: frameReader{r: conn}}
	made.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = c.security.check(leaf, to, address)
	if err == nil {
		err = c.greet(made, to, opening{To: to, For: use, Hello: c.hello(), Request: request})
	}
	if err != nil {
		_ = made.Close()
		return nil, fmt.Errorf("peers: node %d at %s: %w", to, address, err)
	}
	return made, nil
}

// greet sends the opening, checks the answer and sends the verdict.
func (c *caller) greet(conn *call, to uint64, o opening) error {
	if err := sendJSON(conn, preface(), o, helloTimeout); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	var a answer
	if err := receiveJSON(&conn.frames, &a); err != nil {
		return refusedCertificate(err)
	}
	if a.Refused != "" {
		return &RefusedError{Peer: to, ByPeer: true, Removed: a.Removed, Reason: a.Refused}
	}
	var err error
	if a.Hello.Node != to {
		err = fmt.Errorf("%w: node %d was called, but node %d answered", ErrNumber, to, a.Hello.Node)
	} else {
		err = c.judge(a.Hello)
	}
	if err != nil {
		_ = sendJSON(conn, nil, verdict{reason(err)}, helloTimeout) // best effort
		return &RefusedError{Peer: to, Reason: reason(err)}
	}
	if err := sendJSON(conn, nil, verdict{}, helloTimeout); err != nil {
		return err
	}
	return conn.SetReadDeadline(time.Time{})
}
