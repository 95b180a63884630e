package dialect

import (
	"errors"
	"fmt"
	"os"
)

// Kind says how an exchange of frames ended that did not end with a reply.
type Kind int

// The kinds.
const (
	TimedOut Kind = iota // no whole reply in time
	Closed               // the server closed, or reset, the connection
	Refused              // the server accepts no connection
	TooLarge             // more than ReplyBytesMax, or deeper than DepthMax
	NotXML               // a reply that is not well-formed, or has a DOCTYPE
)

// String says what happened, as the end of "the server …".
func (k Kind) String() string {
	switch k {
	case TimedOut:
		return "sent no whole reply in time"
	case Closed:
		return "closed the connection without a reply"
	case Refused:
		return "accepts no connection"
	case TooLarge:
		return "sent a reply that is too large"
	case NotXML:
		return "sent a reply that is not well-formed XML"
	}
	return fmt.Sprintf("failed in way %d", int(k))
}

// Broken is the error of every method of a Conn and of a Dialer: there is no reply. After it the
// connection is of no use; it still has to be closed.
type Broken struct {
	Kind Kind
	Got  string // what came of the reply, at most ExcerptMax bytes; empty if nothing
	Err  error  // the cause; nil if Kind says it all. The context's error if that ended first
}

// Error says what happened, in a sentence for the author of the server.
func (b *Broken) Error() string {
	switch b.Err {
	case errOpen:
		return "the server " + errOpen.Error()
	case nil:
		return "the server " + b.Kind.String()
	}
	return fmt.Sprintf("the server %s: %v", b.Kind, b.Err)
}

// errOpen is the cause of WaitClosed's error.
var errOpen = errors.New("left a connection open that it has to close")

// Unwrap returns the cause.
func (b *Broken) Unwrap() error { return b.Err }

// isTimeout reports whether err is that of a deadline that passed.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
