package dialect

import (
	"errors"
	"fmt"
	"os"
)

// Kind is the reason why a frame got no reply.
type Kind int

// The kinds.
const (
	TimedOut Kind = iota // no whole reply in time
	Closed               // the server closed, or reset, the connection
	Refused              // the server does not accept a connection
	TooLarge             // the reply has more than ReplyBytesMax, or is too deep or large otherwise
	NotXML               // the reply is not well-formed, or has a DOCTYPE
)

// String returns what happened, as the end of a sentence that begins with "the server".
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
	return fmt.Sprintf("failed with unknown fault %d", int(k))
}

// Broken is the error that every method of a Conn and a Dialer returns: there is no reply. Afterwards the
// connection is unusable, but must still be closed.
type Broken struct {
	Kind Kind
	Got  string // beginning of the reply, at most ExcerptMax bytes; empty if nothing arrived
	Err  error  // the cause; nil if Kind says everything; the context's error if the context ended first
}

// Error returns what happened, as a sentence for the author of the server.
func (b *Broken) Error() string {
	switch b.Err {
	case errOpen:
		return "the server " + errOpen.Error()
	case nil:
		return "the server " + b.Kind.String()
	}
	return fmt.Sprintf("the server %s: %v", b.Kind, b.Err)
}

// errOpen is the cause of the error that WaitClosed returns.
var errOpen = errors.New("left a connection open that it must close")

// Unwrap returns the cause.
func (b *Broken) Unwrap() error { return b.Err }

// isTimeout reports whether err is a passed deadline.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
