package wire

import "io"

// XML is the protocol as a server uses it: what decodes and encodes frames, as methods of one value
// (door.Codec says what each is for). It is comparable.
type XML struct {
	Bare bool // replies over a stream have no length line
	HTTP bool // frames come over HTTP, which has no connections that orders could be canceled with
}

// NewFrames returns a FrameReader that asks admit.
func (XML) NewFrames(r io.Reader, max int, admit func(frameBytes int) error) *FrameReader {
	f := NewFrameReader(r, max)
	f.Admit = admit
	return f
}

// NewMessage returns an empty request.
func (x XML) NewMessage() *Request { return &Request{Connectionless: x.HTTP} }

// Memory is DecodeMemory.
func (XML) Memory(frame []byte) int { return DecodeMemory(frame) }

// ExecutionBytesMin is the constant.
func (XML) ExecutionBytesMin() int { return ExecutionBytesMin }

// Token is DecodeAuth.
func (XML) Token(frame []byte) (token string, ok bool) { return DecodeAuth(frame) }

// AppendAuthorized is the function.
func (XML) AppendAuthorized(dst []byte) []byte { return AppendAuthorized(dst) }

// Unauthorized is TextUnauthorized.
func (XML) Unauthorized() string { return TextUnauthorized }

// NeedsTLS is TextNeedsTLS.
func (XML) NeedsTLS() string { return TextNeedsTLS }

// Brackets are those of <results>.
func (XML) Brackets() (begin, end string) { return ReplyBegin, ReplyEnd }

// AppendError is the function.
func (XML) AppendError(dst []byte, text string) []byte { return AppendError(dst, text) }

// EndReply is FrameInPlace, unless replies are bare.
func (x XML) EndReply(dst []byte, begin int) []byte {
	if x.Bare {
		return dst
	}
	return FrameInPlace(dst, begin)
}
