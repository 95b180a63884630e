package door

import (
	"io"
	"time"

	"outcry/internal/exchange"
)

// Codec is a protocol in the form that a Server uses. Adapt makes one.
type Codec = CodecOf[Message, Frames]

// CodecOf is a protocol with its own types for messages and frames: it turns bytes into commands, and results
// into bytes. The session does everything else: tokens, permissions, rates, memory, timeouts, and order and
// durability of replies. A codec has no state, must be comparable, and is used by many goroutines at once.
type CodecOf[M Message, F Frames] interface {
	// NewFrames returns a reader of the frames of a stream, each of up to max bytes. The reader calls admit
	// when a large frame has begun to arrive, to reserve memory; an error of admit ends the stream. head has the
	// frame's bytes that have arrived, and is valid until admit returns.
	NewFrames(r io.Reader, max int, admit func(head []byte, frameBytes int) error) F
	// NewMessage returns a message that frames are decoded into, one after the other.
	NewMessage() M
	// Memory returns an upper bound of the memory in bytes that a frame needs from Decode to the end of its
	// reply, except for the executions of orders. It is called before the frame is decoded.
	Memory(frame []byte) int
	// ExecutionBytesMin returns the size in bytes of the shortest execution in a reply.
	ExecutionBytesMin() int

	// Account returns the account of all commands of a frame, if the frame's first bytes, head, name it. Only
	// waits depend on it.
	Account(head []byte) (account exchange.AccountID, ok bool)

	// Token returns the token if the frame is one that presents a token. ok is false for every other frame.
	Token(frame []byte) (token string, ok bool)
	// AppendAuthorized appends the reply to a valid token.
	AppendAuthorized(dst []byte) []byte
	// Unauthorized returns the error for a client whose first frame has no valid token.
	Unauthorized() string
	// NeedsTLS returns the error for a client that does not use TLS with a server that requires it.
	NeedsTLS() string

	// Brackets returns the text before the first answer of a reply and the text after the last.
	Brackets() (begin, end string)
	// AppendError appends a reply that is a single error: about a whole frame, or the reason why the
	// connection is closed.
	AppendError(dst []byte, text string) []byte
	// EndReply completes the reply in dst[begin:] for a stream, for example with its length.
	EndReply(dst []byte, begin int) []byte
}

// Message is a decoded frame: its commands, and the places of its reply that their results go to. It keeps no
// part of the frame. It is for one goroutine at a time.
type Message interface {
	// Decode reads a frame, and stores the accounts and symbols in it in names, the sender's cache. It cannot fail:
	// errors in the frame become errors in the reply.
	Decode(frame []byte, names *exchange.Names)
	// CancelOnDisconnect is called before Decode. It sets whether orders without an instruction of their own
	// are canceled when their connection ends.
	CancelOnDisconnect(yes bool)
	// Connection returns the settings of a frame that sets something for its connection: from then on, orders
	// are canceled when the connection ends, and the connection ends after the given silence, 0 for the
	// default. ok is false for a frame that sets nothing.
	Connection() (silence time.Duration, ok bool)
	// Judge calls judge for each command in order, and removes each command for which judge returns a
	// refusal. The refusal takes the command's place in the reply. Judge returns the number of removed
	// commands.
	Judge(judge func(c *exchange.Command) exchange.Refusal) (denied int)
	// JudgeMalformed calls judge for each element that is not a valid command, with a command of the same
	// kind and account. If judge returns a refusal, that replaces the error in the reply, which then reveals
	// nothing about the element.
	JudgeMalformed(judge func(c *exchange.Command) exchange.Refusal)
	// Refused returns the number of places whose error has no command. Places that Judge refused do not
	// count.
	Refused() int

	// Places returns the number of answers in the reply. It is 0 if the frame is refused as a whole or has no
	// element; then AppendReply without results makes the reply.
	Places() int
	AppendReply(dst []byte, results []exchange.Result) []byte
	// Command returns the index of the command that is answered in place i, among the commands that Judge
	// left. It returns -1 if the place holds an error and has no command.
	Command(i int) int
	// AppendAnswer appends the answer in place i. results are those of all commands that Judge left.
	AppendAnswer(dst []byte, i int, results []exchange.Result) []byte
	// AppendRefusal appends an error in place i instead of its answer.
	AppendRefusal(dst []byte, i int, refusal exchange.Refusal) []byte
}

// Frames reads frames from a stream. It is for one goroutine.
type Frames interface {
	// Next returns the next frame, which is valid until the next call. The error is io.EOF if the stream ends
	// between frames, io.ErrUnexpectedEOF if it ends within one, a FrameError if the stream is malformed or a
	// frame too large, the error of admit, or the error of the stream itself. Every error is final.
	Next() ([]byte, error)
	// Buffered reports whether Next would return without reading from the stream.
	Buffered() bool
	// InFrame reports whether a part of a frame has been read.
	InFrame() bool
	// SetMax changes the largest frame size. Call it only between two calls of Next.
	SetMax(max int)
	// Release frees the buffer of a large frame that is no longer valid.
	Release() (admitted bool)
}

// FrameError is the error of a stream that cannot be read any further. Its text is for the client.
type FrameError interface {
	error
	OverLimit() bool // a frame is too large; if false, the stream has no frame where one must begin
}

// Adapt makes a Codec of a protocol that does not import this package, such as wire.XML.
func Adapt[M Message, F Frames](c CodecOf[M, F]) Codec { return adapted[M, F]{c} }

type adapted[M Message, F Frames] struct{ CodecOf[M, F] }

func (a adapted[M, F]) NewFrames(r io.Reader, max int, admit func(head []byte, frameBytes int) error) Frames {
	return a.CodecOf.NewFrames(r, max, admit)
}

func (a adapted[M, F]) NewMessage() Message { return a.CodecOf.NewMessage() }
