package client

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed says that the Client is closed. A command that was pending at that time returns a *Broken that
// wraps it.
var ErrClosed = errors.New("client: closed")

// ErrInsecureToken says that a token would be sent to another machine over an unencrypted connection.
// Nothing was sent.
var ErrInsecureToken = errors.New("the token was not sent: the connection to another machine is not encrypted")

// ErrNeedsTLS says that the exchange requires TLS and Options.TLS is nil. Nothing was done. The error also
// wraps a *LastWords.
var ErrNeedsTLS = errors.New("the connection is not encrypted")

// Refused says that the exchange refused a command.
type Refused struct {
	Sent Command
	Text string // the exchange's reason: one line, with the wrong value

	// MaybeDone means that the command was sent before, on a connection that broke, and may have been
	// executed then: an exchange can refuse a command without checking its ref, for example if a token has
	// lost its scope. Otherwise nothing has changed. Send it again with the same ref, which is safe, or use
	// QueryRef.
	MaybeDone bool
}

// Error returns the exchange's reason and the command.
func (e *Refused) Error() string {
	if e.MaybeDone {
		return fmt.Sprintf("client: %v: refused when it was sent again; whether the first attempt was executed is "+
			"unknown: %s", e.Sent,
			e.Text)
	}
	return fmt.Sprintf("client: %v: refused: %s", e.Sent, e.Text)
}

// Unauthorized says that the exchange rejected the token, or requires one and none was sent. It does not say
// what is wrong with a token. Nothing was done on that connection.
type Unauthorized struct {
	Text string
	None bool // no token was sent
}

// Error returns the exchange's text.
func (e *Unauthorized) Error() string {
	if e.None {
		return "no token was presented: " + e.Text
	}
	return "the token is refused: " + e.Text
}

// Broken says that the connection broke before a frame was answered, and that the frame was not or could not be
// resent.
type Broken struct {
	Sent      []Command // commands of the frame, with the refs that they had
	MaybeDone bool      // the frame may have been executed, as a whole or not at all; otherwise nothing has changed
	Err       error     // how the connection broke, or why no connection could be made
}

// Error says whether the commands were executed, as far as known, and why the connection broke.
func (e *Broken) Error() string { return unanswered(e.Sent, e.MaybeDone, e.Err) }

// Unwrap returns Err.
func (e *Broken) Unwrap() error { return e.Err }

// GaveUp says that the caller's context ended before a frame was answered.
type GaveUp struct {
	Sent []Command // commands of the frame, with the refs that they have
	// the commands may have been executed or may yet be; otherwise they were not and will not be sent, or
	// change nothing
	MaybeDone bool
	Err       error // the context's error
}

// Error says whether the commands were executed, as far as known, and why the wait ended.
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

// describe returns the first command of a frame and the number of further ones.
func describe(commands []Command) string {
	if len(commands) == 1 {
		return commands[0].String()
	}
	return fmt.Sprintf("%v and %d more", commands[0], len(commands)-1)
}

// ProtocolError says that the exchange's output violates the protocol. The connection is closed. Calls sent
// after the one that it should have answered return a *Broken that wraps it.
type ProtocolError struct {
	Sent  []Command // commands that it should have answered; may be nil
	Text  string    // what is wrong with it
	Reply string    // the beginning of the reply
}

// replyShown is how many bytes of a reply a ProtocolError keeps.
const replyShown = 200

func newProtocolError(text string, reply []byte) *ProtocolError {
	shown := string(reply[:min(len(reply), replyShown)])
	return &ProtocolError{Text: text, Reply: strings.ToValidUTF8(shown, "\ufffd")}
}

// Error says what is wrong.
func (e *ProtocolError) Error() string {
	text := "client: not an answer from an exchange: " + e.Text
	if e.Reply != "" {
		text += fmt.Sprintf(": %q", e.Reply)
	}
	return text
}

// LastWords is the text that an exchange sends before it closes a connection. A *Broken wraps it; Dial
// returns it if the exchange currently accepts no connections.
type LastWords struct{ Text string }

// Error returns the text.
func (e *LastWords) Error() string { return "the exchange closed the connection: " + e.Text }

// MaybeDone reports whether a command that returned err may have been executed: its answer, or the answer
// to an earlier attempt, is missing. It is false for a query, which changes nothing.
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
