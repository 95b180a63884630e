package dialect

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// NoLength is the value of Reply.Declared if the reply had no length line, or one without a number.
const NoLength = -1

// Reply is a reply to a frame.
type Reply struct {
	Root     *Element
	Raw      string // the bytes that arrived, with the length line; at most ExcerptMax bytes
	Sent     string // the document that it answers; empty after SendRaw
	Declared int64  // the length on the length line, or NoLength

	remark func(Remark) // may be nil
}

// reading reads one reply from an inbox, until ctx ends.
type reading struct {
	ctx    context.Context
	in     *inbox
	chunk  *[]byte // bytes taken from in and not parsed yet; the remainder belongs to the next reply
	raw    []byte  // the beginning of the bytes that were read
	faults map[Form]string
	habits Habits
}

// next reads a byte. The error is a *Broken.
func (r *reading) next() (byte, error) {
	b, err := r.peek(r.ctx)
	if err != nil {
		return 0, err
	}
	r.drop(b)
	return b, nil
}

// peek returns the next byte without reading it, waiting as long as ctx lasts. The error is a *Broken.
func (r *reading) peek(ctx context.Context) (byte, error) {
	if len(*r.chunk) == 0 {
		data, err := r.in.next(ctx)
		if err != nil {
			return 0, err
		}
		*r.chunk = data
	}
	return (*r.chunk)[0], nil
}

// soon is like peek, but waits at most SilenceEnds.
func (r *reading) soon() (byte, error) {
	if len(*r.chunk) > 0 {
		return (*r.chunk)[0], nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, SilenceEnds)
	defer cancel()
	return r.peek(ctx)
}

// drop consumes b, the byte that peek returned.
func (r *reading) drop(b byte) {
	*r.chunk = (*r.chunk)[1:]
	if len(r.raw) <= ExcerptMax {
		r.raw = append(r.raw, b)
	}
}

// fault records a fault of form, the first of each form.
func (r *reading) fault(form Form, detail string) {
	if _, noted := r.faults[form]; !noted {
		r.faults[form] = detail
	}
}

// reply reads a reply. The document ends with its root, whatever the length line says; a wrong length is a formal
// error. The error is a *Broken.
func (r *reading) reply() (root *Element, declared int64, err error) {
	defer func() {
		if err != nil {
			err = broken(err, string(r.raw))
		}
	}()
	blanks, err := r.skipBlank()
	if err != nil {
		return nil, 0, err
	}
	declared, err = r.lengthLine()
	if err != nil {
		return nil, 0, err
	}
	if blanks > 0 && declared != NoLength && !r.habits.WrongLength {
		r.fault(Length, "there are "+strconv.Itoa(blanks)+" bytes before the reply that no length counts")
	}
	src := &source{next: r.next}
	root, err = parse(src)
	if err != nil {
		if b := new(Broken); errors.As(err, &b) && b.Kind == NotXML {
			r.gather()
		}
		return nil, 0, err
	}
	if declared >= 0 && !r.habits.WrongLength {
		r.compareLength(declared, src.size)
	}
	return root, declared, nil
}

// blank reports whether b is white space or 0: such bytes may follow a reply or precede a length.
func blank(b byte) bool { return b == 0 || b == ' ' || '\t' <= b && b <= '\r' }

// skipBlank skips blanks before a reply and counts them. The error is a *Broken.
func (r *reading) skipBlank() (n int, err error) {
	for ; n < ReplyBytesMax; n++ {
		b, err := r.peek(r.ctx)
		if err != nil {
			r.raw = nil // nothing of a reply arrived
			return n, err
		}
		if !blank(b) {
			return n, nil
		}
		r.drop(b)
	}
	return n, tooLarge("more than %d blanks before a reply", ReplyBytesMax)
}

// lengthLine reads the length line before a document, and returns the length, or NoLength.
func (r *reading) lengthLine() (int64, error) {
	var line []byte
	for {
		b, err := r.peek(r.ctx)
		switch {
		case err != nil:
			return 0, err
		case b == '<' || b == '\xef' && len(line) == 0: // a byte-order mark begins with ef
			if len(line) == 0 {
				r.lineFault(!r.habits.Bare, "no line with its length precedes the reply")
				return NoLength, nil
			}
			r.lineFault(true, "the length is not followed by a line feed")
			return r.length(line), nil
		}
		r.drop(b)
		if b == '\n' {
			return r.numbered(line)
		}
		if line = append(line, b); len(line) > lengthLineMax {
			r.gather()
			return 0, notXML("it begins with neither a length nor a document")
		}
	}
}

// numbered returns the length in line, which ended with a line feed. If line has no number, a document must follow at
// once: otherwise the bytes are not a reply.
func (r *reading) numbered(line []byte) (int64, error) {
	r.lineFault(bytes.HasSuffix(line, []byte("\r")) && !r.habits.CRLF,
		"the line with the length ends with CR LF instead of LF alone")
	n := r.length(line)
	if n >= 0 {
		return n, nil
	}
	b, err := r.soon()
	for err == nil && blank(b) { // blank lines, such as the one after an HTTP header
		r.drop(b)
		b, err = r.soon()
	}
	if err != nil || b != '<' {
		r.gather()
		return 0, notXML("it begins with neither a length nor a document")
	}
	return n, nil
}

// length returns the number in line, or NoLength, with a fault, if line is not a number.
func (r *reading) length(line []byte) int64 {
	text := strings.TrimSpace(string(line))
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		r.lineFault(true, "the line before the reply is "+strconv.Quote(text)+" instead of its length")
		return NoLength
	}
	return int64(n)
}

// lineFault records a fault of the length line if is is true.
func (r *reading) lineFault(is bool, detail string) {
	if is {
		r.fault(LengthLine, detail)
	}
}

// compareLength compares the declared length with size, the document's. If more is declared, it reads
// the rest, which may be blanks, comments and processing instructions. A difference is a fault.
func (r *reading) compareLength(declared, size int64) {
	wrong := func() {
		r.fault(Length, "the length says "+strconv.FormatInt(declared, 10)+", the reply has "+
			strconv.FormatInt(size, 10)+" bytes")
	}
	if declared < size {
		wrong()
		return
	}
	for n := size; n < declared; {
		b, err := r.soon()
		if err == nil && b == '<' {
			if n, err = r.aside(n, declared); err == nil {
				continue
			}
		}
		if err != nil || !blank(b) {
			wrong()
			return
		}
		r.drop(b)
		n++
		if b == 0 {
			r.fault(Length, "the length includes a zero byte after the reply")
		}
	}
}

// errNoAside means that the next bytes are not a comment or processing instruction, or that it does not end within
// the declared length.
var errNoAside = errors.New("no comment")

// aside reads a comment or processing instruction that begins after n of the declared bytes, and returns how many
// bytes have been read after it. If something else comes next, which may be the next reply, it reads nothing.
func (r *reading) aside(n, declared int64) (int64, error) {
	if len(*r.chunk) == 1 {
		ctx, cancel := context.WithTimeout(r.ctx, SilenceEnds)
		more, err := r.in.next(ctx)
		cancel()
		if err != nil {
			return n, err
		}
		*r.chunk = append([]byte{(*r.chunk)[0]}, more...)
	}
	end, begin := "-->", len("<!--")
	switch (*r.chunk)[1] {
	case '!':
	case '?':
		end, begin = "?>", len("<?")
	default:
		return n, errNoAside
	}
	last := "" // the last len(end) bytes read after the beginning
	for i := 0; n < declared; i++ {
		b, err := r.soon()
		if err != nil {
			return n, err
		}
		r.drop(b)
		n++
		if i >= begin {
			last += string([]byte{b})
			last = last[max(len(last)-len(end), 0):]
		}
		if last == end {
			return n, nil
		}
	}
	return n, errNoAside
}

// gather reads more bytes when what arrived is not a reply, so that the excerpt shows them: until SilenceEnds
// passes without a byte, or until the excerpt is full.
func (r *reading) gather() {
	for len(r.raw) <= ExcerptMax {
		b, err := r.soon()
		if err != nil {
			return
		}
		r.drop(b)
	}
}

// remarks returns the recorded faults and those of root as remarks, without the conversation.
func (r *reading) remarks(root *Element, now time.Time) []Remark {
	var all []Remark
	for _, form := range []Form{LengthLine, Length} {
		if detail, noted := r.faults[form]; noted {
			all = append(all, Remark{Form: form, Detail: detail})
		}
	}
	return append(all, inspect(root, r.habits, now)...)
}
