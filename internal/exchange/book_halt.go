package exchange

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// HaltReasonCharsMax is the maximum length of a halt's reason, in characters.
const HaltReasonCharsMax = 200

// Halt records since when and why a symbol is halted, or an account is blocked. It is
// immutable, so it may be shared.
type Halt struct {
	Since  int64  // nanoseconds since the Unix epoch
	Reason string // text for people, one line; may be empty
}

// ParseHaltReason checks the reason of a halt: up to HaltReasonCharsMax printable
// characters of UTF-8, including spaces. The error names the value.
func ParseHaltReason(s string) (string, error) {
	if utf8.RuneCountInString(s) > HaltReasonCharsMax {
		return "", fmt.Errorf("reason %s has more than %d characters", quote(s), HaltReasonCharsMax)
	}
	for _, c := range s {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return "", fmt.Errorf("reason %s has a character that cannot be printed, or is not UTF-8", quote(s))
		}
	}
	return s, nil
}

// Halt halts the book's symbol: no orders are accepted; other commands still work, and
// resting orders keep their priority. If the symbol is halted already, Halt changes
// nothing and returns that halt; otherwise it returns nil.
func (b *Book) Halt(h *Halt) (before *Halt) {
	if before = b.halt; before == nil {
		b.halt = h
	}
	return before
}

// Resume ends the halt and returns it, or nil if the symbol was not halted.
func (b *Book) Resume() (ended *Halt) {
	ended, b.halt = b.halt, nil
	return ended
}

// Halted returns the halt of the book's symbol, or nil while the symbol accepts orders. Submit does not check for a
// halt: its caller must.
func (b *Book) Halted() *Halt { return b.halt }

// Moment returns the time of the symbol's next event, in nanoseconds since the epoch: the later of
// clock and the time of the last event, so a symbol's times never go back. After a Restore the book
// only knows the last execution time of open orders; State.Time keeps the clock from going back
// before any other event.
func (b *Book) Moment(clock int64) int64 {
	b.time = max(b.time, clock)
	return b.time
}

// HaltResult is the result of a halt or a resume.
type HaltResult struct {
	Reason  RejectReason // OK, or why the request was refused; then the other fields are zero
	Changed bool         // false if the symbol was already halted, or already not halted
	Halt    Halt         // the halt in force, or the one that was ended; zero if the symbol had none
}

// CancelAllResult is the result of canceling all open orders of an account.
type CancelAllResult struct {
	Reason  RejectReason // time of the cancel, nanoseconds since the Unix epoch
	Time    int64        // time of the cancel, nanoseconds since the Unix epoch
	Symbols []CanceledIn // sorted by name; empty if no order was open
}

// CanceledIn sums up what was canceled in one symbol.
type CanceledIn struct {
	Symbol Symbol
	Orders int
	Shares Position
}
