package load

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/dialect"
)

// Codec is how requests and replies of a protocol stand on a connection. There is one for each
// connection, used by one goroutine at a time.
type Codec interface {
	// Append adds a request to out, and what else the server waits for.
	Append(out, request []byte) []byte
	// Cut looks for the first message in what has come. n is its length, 0 if it has not come as a
	// whole; reply is what a Source takes, nil if the message ends no reply. It is a part of in. The
	// error says that in cannot be the server's; it is final.
	Cut(in []byte) (reply []byte, n int, err error)
}

// framed has frames as the protocol has them.
type framed struct{ most int } // bytes of a reply

// lengthDigitsMax bounds a length line.
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

// loose is of a server that does not frame as the protocol has it. A reply is whatever
// ends with the end tag of its root; what stands before its first < is left out, a length among it.
type loose struct {
	lineEnd string // of a length line
	end     []byte // of a reply
	most    int    // bytes of a reply
	looked  int    // bytes of the reply in which no end begins
}

// newLoose returns one for replies of up to most bytes; 0 is dialect.ReplyBytesMax.
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

// idle reports whether nothing of a reply stands in rest: white space may, where it is of no length.
func idle(c Codec, rest []byte) bool {
	if _, is := c.(*loose); is {
		rest = bytes.TrimSpace(rest)
	}
	return len(rest) == 0
}
