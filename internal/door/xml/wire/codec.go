package wire

import (
	"io"

	"outcry/internal/exchange"
)

// XML is the protocol's implementation of door.Codec, which documents the methods. It is comparable.
type XML struct {
	Bare bool // replies have no length line
	HTTP bool // frames arrive over HTTP, so there is no connection whose end could cancel orders
}

// NewFrames returns a FrameReader of r that calls admit before it grows for a large frame.
func (XML) NewFrames(r io.Reader, max int, admit func(head []byte, frameBytes int) error) *FrameReader {
	f := NewFrameReader(r, max)
	f.Admit = admit
	return f
}

// NewMessage returns an empty request.
func (x XML) NewMessage() *Request { return &Request{Connectionless: x.HTTP} }

// Memory returns the most memory that decoding and answering a frame uses, in bytes: see DecodeMemory.
func (XML) Memory(frame []byte) int { return DecodeMemory(frame) }

// ExecutionBytesMin returns the smallest size of an execution in a reply, in bytes.
func (XML) ExecutionBytesMin() int { return ExecutionBytesMin }

// Account returns the account of a frame of <transactions>: see AccountOf.
func (XML) Account(head []byte) (account exchange.AccountID, ok bool) { return AccountOf(head) }

// Token returns the token of an <auth> frame; ok is false for every other frame.
func (XML) Token(frame []byte) (token string, ok bool) { return DecodeAuth(frame) }

// AppendAuthorized appends the reply to a valid token and returns dst.
func (XML) AppendAuthorized(dst []byte) []byte { return AppendAuthorized(dst) }

// Unauthorized returns the error text for a missing or invalid token.
func (XML) Unauthorized() string { return TextUnauthorized }

// NeedsTLS returns the error text for a client that does not speak TLS.
func (XML) NeedsTLS() string { return TextNeedsTLS }

// Brackets returns what precedes and follows the answers of a reply.
func (XML) Brackets() (begin, end string) { return ReplyBegin, ReplyEnd }

// AppendError appends a reply that consists of one error and returns dst.
func (XML) AppendError(dst []byte, text string) []byte { return AppendError(dst, text) }

// EndReply completes the reply that begins at begin in dst: it inserts the length line, unless Bare is set.
func (x XML) EndReply(dst []byte, begin int) []byte {
	if x.Bare {
		return dst
	}
	return FrameInPlace(dst, begin)
}
