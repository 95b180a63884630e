package script

// kind is what a line of a conversation does.
type kind int

// The kinds.
const (
	send   kind = iota // >  sends a frame
	raw                // >| sends bytes
	want               // <  wants a reply
	closed             // <| wants the server to close the connection
	act                // |  runs a verb, or ? tests a fact
)

// Step is a line of a conversation.
type Step struct {
	line int    // line number in the file
	kind kind   // what the line does
	conn int    // number of the connection; default 1
	text string // DOC, BYTES or WANT as written
	verb *verb  // only for act
	args []string

	// frame and wants are set only for at-once: the frame that all connections send, and the wanted replies with
	// their counts.
	frame string
	wants []counted
}

// counted is a line after at-once that expects a number of replies.
type counted struct {
	line  int
	count string // digits or {part}; "*" means all remaining replies
	text  string // WANT; may be "" with "*", which matches anything
}
