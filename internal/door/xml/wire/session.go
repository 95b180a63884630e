package wire

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// sessionFrame is a decoded <session>: settings for its connection.
type sessionFrame struct {
	silence time.Duration // timeout without frames, after which the connection is closed; 0 for the default
	sent    []byte        // attributes, encoded for the reply to repeat
}

// connection reads <session> (docs/PROTOCOL.md, section "Cancel on disconnect").
func (r *Request) connection(root *element) {
	s, err := decodeSession(root)
	if err == nil && r.Connectionless {
		err = errors.New("<session> concerns a connection, and requests over HTTP have none")
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

// CancelOnDisconnect sets the default for orders without the attribute cod in frames that are decoded
// from now on: whether they are canceled when their connection ends.
func (r *Request) CancelOnDisconnect(yes bool) { r.onDisconnect = yes }

// Connection returns the settings that a decoded <session> frame makes for its connection: orders are
// canceled when it ends, and it ends after silence without a frame, or after the default time if silence
// is 0. ok is false for every other frame.
func (r *Request) Connection() (silence time.Duration, ok bool) {
	if r.session == nil {
		return 0, false
	}
	return r.session.silence, true
}

// append appends to dst the reply to the <session> frame.
func (s *sessionFrame) append(dst []byte) []byte {
	dst = append(dst, ReplyBegin+"<session"...)
	dst = append(dst, s.sent...)
	return append(dst, "/>"+ReplyEnd...)
}
