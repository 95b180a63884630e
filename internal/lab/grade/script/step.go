package script

// kind says what a line of a conversation does.
type kind int

// The kinds.
const (
	send   kind = iota // > a frame
	raw                // >| bytes
	want               // < a reply
	closed             // <| the server closes
	act                // | a verb, or ? a fact
)

// Step is a line of a conversation.
type Step struct {
	line int    // in the file
	kind kind   // what it does
	conn int    // the connection's number, 1 unless said
	text string // DOC, BYTES or WANT as written
	verb *verb  // act
	args []string

	// Of at-once: the frame that all connections send, and what is wanted of how many.
	frame string
	wants []counted
}

// counted is a line of what is wanted behind at-once.
type counted struct {
	line  int
	count string // digits or {part}; "*" for all others
	text  string // WANT; with "*" also "", anything
}
