package door

import (
	"io"
	"time"

	"outcry/internal/exchange"
)

// Codec is a protocol as a Server uses it. Adapt makes one.
type Codec = CodecOf[Message, Frames]

// CodecOf is a protocol with types of its own for messages and frames: bytes to commands, and
// results to bytes. Everything else about a client is the session's: who it is, what it may do and
// how often, memory, time, order and durability of replies. It is pure, it is comparable, and many
// goroutines use it at once.
type CodecOf[M Message, F Frames] interface {
	// NewFrames returns what takes frames out of a stream, each of up to max bytes. admit is
	// asked for the memory of a large one that has begun to arrive; its error ends the stream.
	NewFrames(r io.Reader, max int, admit func(frameBytes int) error) F
	// NewMessage returns a message that frames are decoded into, one after the other.
	NewMessage() M
	// Memory returns how many bytes of memory a frame takes at most, from Decode to the end of
	// its reply, without the executions of orders. It is asked before the frame is decoded.
	Memory(frame []byte) int
	// ExecutionBytesMin is what an execution takes in a reply at least.
	ExecutionBytesMin() int

	// Token returns the token of a frame by which a client proves who it is. ok is false for
	// every other frame.
	Token(frame []byte) (token string, ok bool)
	// AppendAuthorized appends the reply to a token that is taken.
	AppendAuthorized(dst []byte) []byte
	// Unauthorized is the error of a client whose first frame has no such token.
	Unauthorized() string
	// NeedsTLS is the error of a client that speaks no TLS to a server that does.
	NeedsTLS() string

	// Brackets are what stands in front of the answers of a reply and behind them.
	Brackets() (begin, end string)
	// AppendError appends a reply that is one error: to a frame as a whole, or why the
	// connection is closed.
	AppendError(dst []byte, text string) []byte
	// EndReply makes the reply that dst ends with, from begin on, what is sent over a stream.
	EndReply(dst []byte, begin int) []byte
}

// Message is a decoded frame: the commands that it asks for, and the places that their results have
// in its reply. It keeps no part of the frame. It is for one goroutine at a time.
type Message interface {
	// Decode reads a frame. It cannot fail: what is wrong is an error in the reply.
	Decode(frame []byte)
	// CancelOnDisconnect says, before Decode, whether orders that do not say it themselves are canceled when their
	// connection ends.
	CancelOnDisconnect(yes bool)
	// Connection returns what the frame sets for its connection from then on: orders are canceled when it ends, and
	// it ends after such a silence, 0 for the usual one. ok is false for a frame that sets nothing.
	Connection() (silence time.Duration, ok bool)
	// Judge asks about each command in turn, and takes those out for which judge returns a
	// refusal, which is then what stands in their place. It returns how many it took out.
	Judge(judge func(c *exchange.Command) exchange.Refusal) (denied int)
	// JudgeMalformed asks about the elements that are no commands, as which a command of the same
	// kind and account stands, and has a refusal stand in their place: nothing of them is told.
	JudgeMalformed(judge func(c *exchange.Command) exchange.Refusal)
	// Refused returns how many places hold an error that no command leads to, those that Judge
	// took out not counted.
	Refused() int

	// Places returns how many places the reply has, each with one answer. It is 0 if the frame is
	// refused as a whole or asks for nothing: AppendReply, without results, makes that reply.
	Places() int
	AppendReply(dst []byte, results []exchange.Result) []byte
	// Command returns the index among the commands that are left of the one that is answered in
	// place i, -1 if the place holds an error anyway.
	Command(i int) int
	// AppendAnswer appends the answer in place i. results are those of all commands that are left.
	AppendAnswer(dst []byte, i int, results []exchange.Result) []byte
	// AppendRefusal appends an error in place i instead of its answer.
	AppendRefusal(dst []byte, i int, refusal exchange.Refusal) []byte
}

// Frames takes frames out of a stream. It is for one goroutine.
type Frames interface {
	// Next returns the next frame, which is valid until the next call. The error is io.EOF if the
	// stream ends between frames, io.ErrUnexpectedEOF if it ends within one, a FrameError if it
	// can no longer be followed, admit's, or the stream's own. Every error is final.
	Next() ([]byte, error)
	// Buffered reports whether Next would return without reading.
	Buffered() bool
	// InFrame reports whether a part of a frame has been read.
	InFrame() bool
	// SetMax changes the largest frame, between two calls of Next.
	SetMax(max int)
	// Release gives back the memory of a large frame that is not valid any more.
	Release() (admitted bool)
}

// FrameError says that a stream can no longer be followed. Its text is for the client.
type FrameError interface {
	error
	OverLimit() bool // a frame is too large; otherwise there is none where one should be
}

// Adapt makes a Codec of a protocol that knows nothing of this package, such as wire.XML.
func Adapt[M Message, F Frames](c CodecOf[M, F]) Codec { return adapted[M, F]{c} }

type adapted[M Message, F Frames] struct{ CodecOf[M, F] }

func (a adapted[M, F]) NewFrames(r io.Reader, max int, admit func(frameBytes int) error) Frames {
	return a.CodecOf.NewFrames(r, max, admit)
}

func (a adapted[M, F]) NewMessage() Message { return a.CodecOf.NewMessage() }
