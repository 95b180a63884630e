package client

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed says that the Client is closed. A command that it ends comes as a *Broken
// around it.
var ErrClosed = errors.New("client: closed")

// ErrInsecureToken says that a token would go to another machine over a connection that is
// not encrypted. Nothing was sent.
var ErrInsecureToken = errors.New("the token is not sent: the connection is not encrypted, and goes to another machine")

// ErrNeedsTLS says that the exchange speaks TLS, and Options.TLS is nil. It did nothing. A *LastWords is beside it.
var ErrNeedsTLS = errors.New("the connection is not encrypted")

// Refused says that the exchange refuses a command: it did nothing.
type Refused struct {
	Sent Command
	Text string // what the exchange says: one line, with the value that is wrong

	// MaybeDone says that the command had been sent before, on a connection that broke,
	// and may have been done then: an exchange can refuse a command without a look at
	// its ref, as for a token that has lost its scope. Else nothing has changed. Send it
	// again with the same ref, which is safe, or ask with QueryRef.
	MaybeDone bool
}

// Error returns what the exchange says, and about what.
func (e *Refused) Error() string {
	if e.MaybeDone {
		return fmt.Sprintf("client: %v: refused when it was sent again, whether it was done before is unknown: %s", e.Sent,
			e.Text)
	}
	return fmt.Sprintf("client: %v: refused: %s", e.Sent, e.Text)
}

// Unauthorized says that the exchange did not take the token, or demands one that was not
// shown. It does not tell what is wrong with a token. Nothing was done on that connection.
type Unauthorized struct {
	Text string
	None bool // no token was shown
}

// Error returns what the exchange says.
func (e *Unauthorized) Error() string {
	if e.None {
		return "no token was shown: " + e.Text
	}
	return "the token is refused: " + e.Text
}

// Broken says that the connection broke before a frame had its answer, and that it was
// not sent again, or could not be.
type Broken struct {
	Sent      []Command // the frame's, with the refs that they had
	MaybeDone bool      // they may have been done, whole or not at all; else nothing has changed
	Err       error     // how the connection broke, or why there was none
}

// Error says what is known of the commands, and why.
func (e *Broken) Error() string { return unanswered(e.Sent, e.MaybeDone, e.Err) }

// Unwrap returns Err.
func (e *Broken) Unwrap() error { return e.Err }

// GaveUp says that the caller's context ended before a frame had its answer.
type GaveUp struct {
	Sent []Command // the frame's, with the refs that they have
	// they may have been done, or be done yet; else they were not and will not be sent, or change nothing
	MaybeDone bool
	Err       error // the context's
}

// Error says what is known of the commands, and why.
func (e *GaveUp) Error() string { return unanswered(e.Sent, e.MaybeDone, e.Err) }

// Unwrap returns Err.
func (e *GaveUp) Unwrap() error { return e.Err }

func unanswered(sent []Command, maybeDone bool, err error) string {
	known := "nothing has changed"
	if maybeDone {
		known = "whether it was done is unknown"
	}
	return fmt.Sprintf("client: %s: no answer, %s: %v", describe(sent), known, err)
}

// describe names the first command of a frame, and how many there are.
func describe(commands []Command) string {
	if len(commands) == 1 {
		return commands[0].String()
	}
	return fmt.Sprintf("%v and %d more", commands[0], len(commands)-1)
}

// ProtocolError says that what the exchange sent is not what an exchange sends. The
// connection that it came on is closed, and frames behind the one that it should have
// answered have a *Broken around it.
type ProtocolError struct {
	Sent  []Command // what it should have answered, nil if that is nothing
	Text  string    // what is wrong with it
	Reply string    // its beginning
}

// replyShown is how much of a reply an error has.
const replyShown = 200

func newProtocolError(text string, reply []byte) *ProtocolError {
	shown := string(reply[:min(len(reply), replyShown)])
	return &ProtocolError{Text: text, Reply: strings.ToValidUTF8(shown, "\ufffd")}
}

// Error says what is wrong.
func (e *ProtocolError) Error() string {
	text := "client: not an answer of an exchange: " + e.Text
	if e.Reply != "" {
		text += fmt.Sprintf(": %q", e.Reply)
	}
	return text
}

// LastWords is what an exchange says before it closes a connection. It comes inside of
// a *Broken, and from Dial, if the exchange takes no connection just now.
type LastWords struct{ Text string }

// Error returns the text.
func (e *LastWords) Error() string { return "the exchange closed the connection: " + e.Text }

// MaybeDone reports whether a command that came back with err may have been done
// nevertheless: its answer, or that to its first sending, is missing. A query changes
// nothing, so that of one it is false.
func MaybeDone(err error) bool {
	var refused *Refused
	var broken *Broken
	var gaveUp *GaveUp
	var protocol *ProtocolError
	switch {
	case errors.As(err, &refused):
		return refused.MaybeDone
	case errors.As(err, &broken):
		return broken.MaybeDone
	case errors.As(err, &gaveUp):
		return gaveUp.MaybeDone
	case errors.As(err, &protocol):
		return changes(protocol.Sent)
	}
	return false
}
