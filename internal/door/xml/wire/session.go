package wire

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// sessionFrame is what a <session> sets for its connection.
type sessionFrame struct {
	silence time.Duration // after which the connection is closed, 0 if it does not say
	sent    []byte        // its attributes, as the reply repeats them
}

// connection reads <session> (docs/PROTOCOL.md, section "Cancel on disconnect").
func (r *Request) connection(root *element) {
	s, err := decodeSession(root)
	if err == nil && r.Connectionless {
		err = errors.New("<session> is about a connection, and over HTTP there is none")
	}
	if err != nil {
		r.refusal = err.Error()
		return
	}
	r.session = s
}

func decodeSession(root *element) (*sessionFrame, error) {
	if err := first(onlyAttributes(root, "cancel", "timeout"), noContent(root)); err != nil {
		return nil, err
	}
	cancel, ok := root.attr("cancel")
	if !ok {
		return nil, errMissing(root, "cancel")
	}
	if cancel != "disconnect" {
		return nil, fmt.Errorf("cancel %s is not disconnect", strconv.Quote(clip(cancel)))
	}
	s := &sessionFrame{sent: appendAttr(nil, "cancel", cancel)}
	timeout, ok := root.attr("timeout")
	if !ok {
		return s, nil
	}
	seconds, err := parseWhole(timeout, secondsMax)
	if err != nil || seconds == 0 {
		return nil, fmt.Errorf("timeout %s is not a whole number from 1 to %d", strconv.Quote(clip(timeout)), secondsMax)
	}
	s.silence, s.sent = time.Duration(seconds)*time.Second, appendAttr(s.sent, "timeout", timeout)
	return s, nil
}

// CancelOnDisconnect says whether the orders of frames that are decoded from now on are canceled when
// their connection ends, where they do not say it themselves.
func (r *Request) CancelOnDisconnect(yes bool) { r.onDisconnect = yes }

// Connection returns what a frame that was decoded sets for its connection from then on: orders are
// canceled when it ends, and it ends after a silence, 0 for the usual one. ok is false for a
// frame that sets nothing.
func (r *Request) Connection() (silence time.Duration, ok bool) {
	if r.session == nil {
		return 0, false
	}
	return r.session.silence, true
}

// append appends the reply.
func (s *sessionFrame) append(dst []byte) []byte {
	dst = append(dst, ReplyBegin+"<session"...)
	dst = append(dst, s.sent...)
	return append(dst, "/>"+ReplyEnd...)
}
