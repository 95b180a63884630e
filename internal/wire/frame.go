package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	// lengthLineMax bounds the digits of a length line, leading zeros included.
	lengthLineMax = 1024

	// A FrameReader's buffer grows as bytes arrive, from bufferMin up. One that
	// is larger than bufferKeep is given up when it is empty.
	bufferMin  = 4 << 10
	bufferKeep = 64 << 10
)

// FrameError says that the stream can no longer be followed. Its text is for the
// client.
type FrameError struct{ Text string }

// Error returns the text.
func (e *FrameError) Error() string { return e.Text }

// FrameReader takes frames out of a stream (docs/PROTOCOL.md, section "Frames").
// Its memory is bounded by the largest frame, and is taken as bytes arrive, not
// as a length line promises. It is for one goroutine.
type FrameReader struct {
	r          io.Reader
	max        int
	buf        []byte
	start, end int // buf[start:end] is read and not yet handed out
	body       int // length of the frame whose length line was taken, -1 before that
	err        error
}

// NewFrameReader returns a reader of frames of up to max bytes.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	return &FrameReader{r: r, max: max, body: -1}
}

// Next returns the next frame, which is valid until the next call. It returns
// io.EOF where the stream ends between frames, io.ErrUnexpectedEOF where it ends
// within one, a *FrameError where a length line is none or the frame is too
// large, and the stream's own errors. Every error is final.
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

// Buffered tells whether Next would return without reading.
func (f *FrameReader) Buffered() bool {
	f.skipBlank()
	if f.body >= 0 {
		return f.end-f.start >= f.body
	}
	length, n, err := f.parseLength()
	return err != nil || n > 0 && f.end-f.start-n >= length
}

// InFrame tells whether a part of a frame has been read: its length line has
// begun and its last byte is not there. Blank lines are no part of a frame.
func (f *FrameReader) InFrame() bool {
	f.skipBlank()
	return f.body >= 0 || f.end > f.start
}

// take returns a frame that is wholly in the buffer, nil where there is none.
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
	frame := f.buf[f.start : f.start+f.body : f.start+f.body]
	f.start += f.body
	f.body = -1
	if frame == nil {
		frame = []byte{}
	}
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
// where its end has not arrived.
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
		return 0, 0, &FrameError{fmt.Sprintf("a frame's length line has more than %d digits", lengthLineMax)}
	case digits == len(line) || len(end) == 0 && digits > 0:
		return 0, 0, nil
	case len(end) == 0 && len(line) == 1: // a carriage return whose line feed may follow
		return 0, 0, nil
	case digits == 0 || end[0] != '\n':
		return 0, 0, &FrameError{"a frame begins with its length in bytes, alone on a line, not with " + quoteBytes(line)}
	case length > f.max:
		return 0, 0, &FrameError{fmt.Sprintf("a frame of %s bytes is over the limit of %d", bytes.TrimLeft(line[:digits], "0"), f.max)}
	}
	return length, len(line) - len(end) + 1, nil
}

// quoteBytes shows the begin of what stands where a length should.
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

// fill reads once, into a buffer that has room for it.
func (f *FrameReader) fill() error {
	if f.start == f.end {
		f.start, f.end = 0, 0
		if len(f.buf) > bufferKeep {
			f.buf = nil
		}
	}
	if f.end == len(f.buf) {
		f.grow()
	}
	n, err := f.r.Read(f.buf[f.end:])
	f.end += n
	if n > 0 && errors.Is(err, io.EOF) {
		return nil // it will say so again
	}
	return err
}

// grow makes room behind end: by moving what is there to the front, or by
// doubling the buffer where that is full.
func (f *FrameReader) grow() {
	used := f.end - f.start
	to := f.buf
	if used > len(f.buf)/2 || len(f.buf) == 0 {
		to = make([]byte, max(bufferMin, 2*len(f.buf)))
	}
	copy(to, f.buf[f.start:f.end])
	f.buf, f.start, f.end = to, 0, used
}

// AppendFrame appends a frame: the length line and xml.
func AppendFrame(dst, xml []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(xml)), 10)
	dst = append(dst, '\n')
	return append(dst, xml...)
}
