package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

const (
	// lengthLineMax bounds the digits of a length line, leading zeros included.
	lengthLineMax = 1024

	// A FrameReader's buffer grows as bytes arrive, from bufferMin up, to at most
	// bufferMin above the largest frame. After a frame that is larger than
	// bufferKeep it goes back to that.
	bufferMin  = 4 << 10
	bufferKeep = 64 << 10

	// emptyReadsMax bounds how often in a row a stream may return nothing.
	emptyReadsMax = 100
)

// FrameError says that the stream can no longer be followed: what stands in the
// place of a length line is none, or the frame is over the limit. Its text is for
// the client, who is sent it (AppendError) before the connection is closed.
type FrameError struct {
	Text     string
	TooLarge bool // a length line that says more than the limit, not a malformed one
}

// Error returns the text.
func (e *FrameError) Error() string { return e.Text }

// OverLimit returns TooLarge.
func (e *FrameError) OverLimit() bool { return e.TooLarge }

// FrameReader takes frames out of a stream (docs/PROTOCOL.md, section "Frames").
// Its memory is bounded by twice the largest frame while that arrives, and is taken
// as bytes arrive, not as a length line promises. It is for one goroutine.
//
// A reader with deadlines can be put under it: InFrame tells at each Read whether
// the client is idle or in the middle of a frame.
type FrameReader struct {
	// Admit, if it is not nil, is asked once for each frame of more than 64 KiB,
	// when so much of it has arrived, before there is memory for the rest. It may
	// wait. Its error ends the stream: Next returns it. Release says when the
	// memory is free again. It is set before the first call of a method.
	Admit func(frameBytes int) error

	r          io.Reader
	max        int
	buf        []byte
	start, end int   // buf[start:end] is read and not yet handed out
	body       int   // length of the frame whose length line was taken, -1 before that
	admitted   bool  // the buffer may be larger than bufferKeep
	err        error // what the stream ended with
}

// NewFrameReader returns a reader of the frames in r, each of up to max bytes of
// XML. It reads ahead of the frame that it hands out.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	return &FrameReader{r: r, max: max, buf: make([]byte, bufferMin), body: -1}
}

// SetMax changes the largest frame. It is called between two calls of Next.
func (f *FrameReader) SetMax(max int) { f.max = max }

// Next returns the next frame, which is valid until the next call. It returns
// io.EOF if the stream ends between frames, io.ErrUnexpectedEOF if it ends
// within one, a *FrameError if the stream can no longer be followed, and the
// stream's own errors, io.ErrNoProgress among them. Every error is final, and
// comes after the frames that were whole before it.
func (f *FrameReader) Next() ([]byte, error) {
	for {
		frame, err := f.take()
		if frame != nil || err != nil {
			return frame, err
		}
		if f.err == nil {
			f.err = f.fill()
			continue
		}
		if errors.Is(f.err, io.EOF) && f.InFrame() {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, f.err
	}
}

// Buffered reports whether Next would return without reading: a further frame, or
// what is wrong with it, is in memory already.
func (f *FrameReader) Buffered() bool {
	f.skipBlank()
	if f.body >= 0 {
		return f.end-f.start >= f.body
	}
	length, n, err := f.parseLength()
	return err != nil || n > 0 && f.end-f.start-n >= length
}

// InFrame reports whether a part of a frame has been read: its length line has
// begun and its last byte is not there. Blank lines are no part of a frame.
func (f *FrameReader) InFrame() bool {
	f.skipBlank()
	return f.body >= 0 || f.end > f.start
}

// take returns a frame that is wholly in the buffer, nil if there is none.
func (f *FrameReader) take() ([]byte, error) {
	if f.body < 0 {
		f.skipBlank()
		length, n, err := f.parseLength()
		if err != nil || n == 0 {
			return nil, err
		}
		f.start += n
		f.body = length
	}
	if f.end-f.start < f.body {
		return nil, nil
	}
	frame := f.buf[f.start : f.start+f.body : f.start+f.body] // not nil: it had a length line
	f.start += f.body
	f.body = -1
	return frame, nil
}

// skipBlank drops spaces and blank lines in front of a length.
func (f *FrameReader) skipBlank() {
	if f.body >= 0 {
		return
	}
	for f.start < f.end {
		c := f.buf[f.start]
		crlf := c == '\r' && f.start+1 < f.end && f.buf[f.start+1] == '\n'
		if c != ' ' && c != '\n' && !crlf {
			return
		}
		f.start++
	}
}

// parseLength reads a length line at the front of the buffer. n is its length, 0
// if its end has not arrived.
func (f *FrameReader) parseLength() (length, n int, err error) {
	line := f.buf[f.start:f.end]
	digits := 0
	for digits < len(line) && '0' <= line[digits] && line[digits] <= '9' {
		if length <= f.max {
			length = length*10 + int(line[digits]-'0')
		}
		digits++
	}
	end := bytes.TrimPrefix(line[digits:], []byte("\r"))
	switch {
	case digits > lengthLineMax:
		return 0, 0, &FrameError{Text: fmt.Sprintf("a frame's length line has more than %d digits", lengthLineMax)}
	case digits == len(line) || len(end) == 0 && digits > 0:
		return 0, 0, nil
	case len(end) == 0 && len(line) == 1: // a carriage return, whose line feed may follow
		return 0, 0, nil
	case digits == 0 || end[0] != '\n':
		return 0, 0, &FrameError{Text: "a frame begins with its length in bytes, alone on a line, not with " +
			quoteBytes(line)}
	case length > f.max:
		size := clip(string(bytes.TrimLeft(line[:digits], "0")))
		text := fmt.Sprintf("a frame of %s bytes is over the limit of %d", size, f.max)
		return 0, 0, &FrameError{TooLarge: true, Text: text}
	}
	return length, len(line) - len(end) + 1, nil
}

// quoteBytes shows the beginning of what stands where a length should.
func quoteBytes(b []byte) string {
	const shown = 24
	if i := bytes.IndexByte(b, '\n'); i > 0 {
		b = b[:i]
	}
	if len(b) > shown {
		return strconv.Quote(string(b[:shown])) + "…"
	}
	return strconv.Quote(string(b))
}

// fill reads at least one byte, into a buffer that has room for it.
func (f *FrameReader) fill() error {
	if err := f.makeRoom(); err != nil {
		return err
	}
	for range emptyReadsMax {
		n, err := f.r.Read(f.buf[f.end:])
		f.end += n
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom makes room behind end. The buffer doubles while it is too small for the
// frame and full, up to what the frame needs; otherwise what is there moves to the
// front. The error is Admit's.
func (f *FrameReader) makeRoom() error {
	used := f.end - f.start
	to := f.buf
	switch {
	case f.start > 0 && used < bufferKeep && len(to) > bufferKeep: // behind a large frame
		to = f.small()
	case f.end == len(to) && f.body > len(to):
		if err := f.admit(); err != nil {
			return err
		}
		to = make([]byte, min(2*len(to), f.body+bufferMin))
	case f.end < len(to) && used > 0:
		return nil
	}
	f.moveTo(to)
	return nil
}

// admit asks whether the buffer may become larger than bufferKeep, if it is to.
func (f *FrameReader) admit() error {
	if f.Admit == nil || f.admitted || 2*len(f.buf) <= bufferKeep {
		return nil
	}
	if err := f.Admit(f.body); err != nil {
		return err
	}
	f.admitted = true
	return nil
}

// Release gives back the memory of a large frame that Next has returned, and that
// is not valid any more. It reports whether that memory was asked for with Admit;
// otherwise there is nothing to give back.
func (f *FrameReader) Release() (admitted bool) {
	if !f.admitted {
		return false
	}
	f.moveTo(f.small())
	return true
}

// small returns a buffer of the size that is kept, or of what it has to hold.
func (f *FrameReader) small() []byte {
	f.admitted = false
	return make([]byte, max(bufferKeep, f.end-f.start))
}

// moveTo moves what was read and not handed out to the front of a buffer.
func (f *FrameReader) moveTo(to []byte) {
	used := copy(to, f.buf[f.start:f.end])
	f.buf, f.start, f.end = to, 0, used
}

// AppendFrame appends a frame to dst and returns it: the length of xml in bytes,
// alone on a line, and xml.
func AppendFrame(dst, xml []byte) []byte {
	dst = appendLength(dst, len(xml))
	return append(dst, xml...)
}

// FrameInPlace makes a frame of the XML that dst ends with, from begin on: it puts
// the length line in front of it. It returns the longer dst.
func FrameInPlace(dst []byte, begin int) []byte {
	var line [lengthLineLen]byte
	return slices.Insert(dst, begin, appendLength(line[:0], len(dst)-begin)...)
}

// lengthLineLen has room for every length line that is written.
const lengthLineLen = len("9223372036854775807\n")

func appendLength(dst []byte, n int) []byte {
	return append(strconv.AppendInt(dst, int64(n), 10), '\n')
}
