package exchange

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// HaltReasonCharsMax is how many characters the reason of a halt may have.
const HaltReasonCharsMax = 200

// Halt says since when and why a symbol takes no orders. It does not change once it
// is made, so that it may be shared.
type Halt struct {
	Since  int64  // nanoseconds since the Unix epoch
	Reason string // for people, one line; may be empty
}

// ParseHaltReason checks the reason of a halt: up to HaltReasonCharsMax printable
// characters of UTF-8, spaces among them. The error names the value.
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

// Halt makes the book's symbol one that takes no orders, whose other commands go on;
// resting orders keep their places. It returns the halt that was there, and then
// changes nothing, or nil.
func (b *Book) Halt(h *Halt) (before *Halt) {
	if before = b.halt; before == nil {
		b.halt = h
	}
	return before
}

// Resume ends a halt and returns it, nil where there was none.
func (b *Book) Resume() (ended *Halt) {
	ended, b.halt = b.halt, nil
	return ended
}

// Halted returns the halt of the book's symbol, nil while it takes orders. It does not
// keep Submit from matching: its caller has looked.
func (b *Book) Halted() *Halt { return b.halt }

// Moment returns the time of the symbol's next event, in nanoseconds since the epoch: the
// clock's, or the last one's if the clock stands before that. A symbol's times never go
// back. After a Restore the book knows only the last one of an open order's executions; State.Time keeps the
// clock from standing before any other.
func (b *Book) Moment(clock int64) int64 {
	b.time = max(b.time, clock)
	return b.time
}

// HaltResult is what became of a halt or of its end.
type HaltResult struct {
	Reason  RejectReason // OK, or why nothing was done; then the other fields are zero
	Changed bool         // false where the symbol was halted before, or took orders before
	Halt    Halt         // the one that holds now, or that was ended; zero where there is none
}

// CancelAllResult is what became of a cancel of all that an account has open.
type CancelAllResult struct {
	Reason  RejectReason // OK, or why nothing was done; then the other fields are zero
	Time    int64        // when, nanoseconds since the Unix epoch
	Symbols []CanceledIn // in order of their names; none where nothing was open
}

// CanceledIn is what was canceled of one symbol.
type CanceledIn struct {
	Symbol Symbol
	Orders int
	Shares Position
}
