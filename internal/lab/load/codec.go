package load

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/dialect"
)

// Codec encodes requests and finds replies on a connection. Each connection has its own codec, used by
// one goroutine at a time.
type Codec interface {
	// Append appends a request to out, with any framing that the server needs.
	Append(out, request []byte) []byte
	// Cut looks for the first message at the start of in. n is the message's length, or 0 if the message
	// is incomplete. reply is the part of in to pass to Source.Reply, or nil if the message does not
	// complete a reply. An error means that in violates the protocol; it is permanent.
	Cut(in []byte) (reply []byte, n int, err error)
}

// framed is the codec of the protocol's own frames.
type framed struct{ most int } // largest reply in bytes

// lengthDigitsMax is the maximum length of a length line.
const lengthDigitsMax = 10

// Append implements Codec.
func (*framed) Append(out, xml []byte) []byte { return wire.AppendFrame(out, xml) }

// Cut implements Codec.
func (f *framed) Cut(in []byte) (reply []byte, n int, err error) {
	length := 0
	for i, b := range in[:min(len(in), lengthDigitsMax+1)] {
		switch {
		case b == '\n' && i > 0:
			if end := i + 1 + length; end <= len(in) {
				return in[i+1 : end : end], end, nil
			}
			return nil, 0, nil
		case b < '0' || b > '9' || i == lengthDigitsMax:
			return nil, 0, fmt.Errorf("not a frame: %.40q", in)
		}
		if length = 10*length + int(b-'0'); length > f.most {
			return nil, 0, fmt.Errorf("a reply of more than %d bytes", f.most)
		}
	}
	return nil, 0, nil
}

// loose is the codec for servers that do not frame as the protocol requires. A reply ends with the end
// tag of its root. Bytes before its first <, such as a length, are skipped.
type loose struct {
	lineEnd string // line end after a length line
	end     []byte // end tag of a reply's root
	most    int    // largest reply in bytes
	looked  int    // bytes of the reply already searched for the end tag
}

// newLoose returns a codec for replies of up to most bytes; 0 means dialect.ReplyBytesMax.
func newLoose(h dialect.Habits, most int) *loose {
	l := &loose{lineEnd: "\n", end: []byte("</results>"), most: cmp.Or(most, dialect.ReplyBytesMax)}
	if h.CRLF {
		l.lineEnd = "\r\n"
	}
	if h.ResultRoot {
		l.end = []byte("</result>")
	}
	return l
}

// Append implements Codec.
func (l *loose) Append(out, xml []byte) []byte {
	out = append(strconv.AppendInt(out, int64(len(xml)), 10), l.lineEnd...)
	return append(out, xml...)
}

// Cut implements Codec.
func (l *loose) Cut(in []byte) (reply []byte, n int, err error) {
	at := bytes.Index(in[l.looked:], l.end)
	if at < 0 {
		if len(in) > l.most {
			return nil, 0, fmt.Errorf("a reply of more than %d bytes", l.most)
		}
		l.looked = max(0, len(in)-len(l.end)+1)
		return nil, 0, nil
	}
	end := l.looked + at + len(l.end)
	l.looked = 0
	if end > l.most {
		return nil, 0, fmt.Errorf("a reply of more than %d bytes", l.most)
	}
	return in[bytes.IndexByte(in, '<'):end:end], end, nil
}

// idle reports whether rest, the unprocessed bytes, contains no part of a reply. White space is allowed if the
// server does not send lengths.
func idle(c Codec, rest []byte) bool {
	if _, is := c.(*loose); is {
		rest = bytes.TrimSpace(rest)
	}
	return len(rest) == 0
}
