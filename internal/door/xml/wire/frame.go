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
	// lengthLineMax is the largest number of digits in a length line, including leading zeros.
	lengthLineMax = 1024

	// A FrameReader's buffer starts with bufferMin bytes and grows as data arrives, to at most bufferMin
	// more than the largest frame. After a frame larger than bufferKeep it shrinks to bufferKeep.
	bufferMin  = 4 << 10
	bufferKeep = 64 << 10

	// emptyReadsMax is how many consecutive reads may return no data and no error.
	emptyReadsMax = 100
)

// FrameError says that the stream cannot be read any further: a length line is malformed, or a frame
// exceeds the limit. Its text is for the client, to whom it is sent (AppendError) before the connection
// is closed.
type FrameError struct {
	Text     string
	TooLarge bool // the frame exceeds the limit; if false, the length line is malformed
}

// Error returns the text for the client.
func (e *FrameError) Error() string { return e.Text }

// OverLimit reports whether the frame exceeds the limit.
func (e *FrameError) OverLimit() bool { return e.TooLarge }

// FrameReader reads frames from a stream (docs/PROTOCOL.md, section "Frames"). It uses at most twice the
// size of the largest frame while that arrives, and allocates memory as data arrives, not when a length
// line announces it. It is not safe for concurrent use.
//
// The stream may be a reader with deadlines: during each Read, InFrame reports whether the client is
// idle or in the middle of a frame.
type FrameReader struct {
	// Admit, if not nil, is called once for each frame of more than 64 KiB, when that much of it has
	// arrived, head, before memory for the rest is allocated. head is valid until Admit returns. Admit may
	// block. If it returns an error, Next returns that, and the stream ends. Release reports when the memory
	// is free again. Admit must be set before the first call of a method.
	Admit func(head []byte, frameBytes int) error

	r          io.Reader
	max        int
	buf        []byte
	start, end int   // buf[start:end] is read but not returned yet
	body       int   // length of the frame whose length line was read; -1 before that
	admitted   bool  // Admit has allowed a buffer larger than bufferKeep
	err        error // error of the stream; nil until it has ended
}

// NewFrameReader returns a reader of the frames in r, each of up to max bytes of XML. It may read more
// from r than the frames that it has returned.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	return &FrameReader{r: r, max: max, buf: make([]byte, bufferMin), body: -1}
}

// SetMax changes the largest frame, in bytes. It must not be called during a call of Next.
func (f *FrameReader) SetMax(max int) { f.max = max }

// Next returns the next frame, which is valid until the next call. It returns io.EOF if the stream ends
// between frames, io.ErrUnexpectedEOF if it ends within one, a *FrameError if the stream cannot be read
// any further, and otherwise Admit's error, io.ErrNoProgress, or the stream's own error. Every error is
// final and is returned after all complete frames before it.
func (f *FrameReader) Next() ([]byte, error) {
	for {
		frame, err := f.buffered()
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

// Buffered reports whether Next would return without reading from the stream: the next frame, or an
// error in its length line, is already in the buffer.
func (f *FrameReader) Buffered() bool {
	err := f.begin()
	return err != nil || f.whole()
}

// InFrame reports whether a frame has been read in part: its length line has begun, and its last byte
// has not been read. Blank lines do not belong to a frame.
func (f *FrameReader) InFrame() bool {
	f.skipBlank()
	return f.body >= 0 || f.end > f.start
}

// buffered returns the next frame if all of it is in the buffer, else nil.
func (f *FrameReader) buffered() ([]byte, error) {
	if err := f.begin(); err != nil || !f.whole() {
		return nil, err
	}
	frame := f.buf[f.start : f.start+f.body : f.start+f.body] // not nil even if empty
	f.start += f.body
	f.body = -1
	return frame, nil
}

// begin reads the length line of the next frame, unless it was read before or its end has not arrived yet.
func (f *FrameReader) begin() error {
	if f.body >= 0 {
		return nil
	}
	f.skipBlank()
	length, n, err := f.parseLength()
	if n > 0 {
		f.start += n
		f.body = length
	}
	return err
}

// whole reports whether all of the frame whose length line was read is in the buffer.
func (f *FrameReader) whole() bool { return f.body >= 0 && f.end-f.start >= f.body }

// skipBlank skips spaces and blank lines before a length line.
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

// parseLength parses the length line at the front of the buffer. n is the size of the line, or 0 if its
// end has not arrived yet.
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
	case len(end) == 0 && len(line) == 1: // only a carriage return so far; a line feed may follow
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

// quoteBytes quotes the beginning of the text that was found instead of a length line.
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

// fill reads at least one byte into the buffer, after making room for it.
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

// makeRoom makes room after end. If the buffer is full of the frame and smaller, its size is doubled, up to the size of
// the frame; otherwise the data moves to the front. The error is Admit's.
func (f *FrameReader) makeRoom() error {
	used := f.end - f.start
	to := f.buf
	switch {
	case f.start > 0 && used < bufferKeep && len(to) > bufferKeep: // the buffer is still large after a large frame
		to = f.small()
	case f.start == 0 && f.end == len(to) && f.body > len(to):
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

// admit calls Admit if the buffer is about to exceed bufferKeep and Admit was not called yet.
func (f *FrameReader) admit() error {
	if f.Admit == nil || f.admitted || 2*len(f.buf) <= bufferKeep {
		return nil
	}
	if err := f.Admit(f.buf[f.start:f.end], f.body); err != nil {
		return err
	}
	f.admitted = true
	return nil
}

// Release frees the memory of a large frame that Next has returned and that is no longer in use. It
// reports whether that memory was requested with Admit; otherwise it does nothing.
func (f *FrameReader) Release() (admitted bool) {
	if !f.admitted {
		return false
	}
	f.moveTo(f.small())
	return true
}

// small returns a new buffer of bufferKeep bytes, or more if the unread data needs it.
func (f *FrameReader) small() []byte {
	f.admitted = false
	return make([]byte, max(bufferKeep, f.end-f.start))
}

// moveTo makes to the buffer and moves the unread data to its front.
func (f *FrameReader) moveTo(to []byte) {
	used := copy(to, f.buf[f.start:f.end])
	f.buf, f.start, f.end = to, 0, used
}

// AppendFrame appends a frame to dst and returns it: a line with the length of xml in bytes, then xml.
func AppendFrame(dst, xml []byte) []byte {
	dst = appendLength(dst, len(xml))
	return append(dst, xml...)
}

// FrameInPlace turns dst[begin:] into a frame: it inserts the length line at begin. It returns the
// longer dst.
func FrameInPlace(dst []byte, begin int) []byte {
	var line [lengthLineLen]byte
	return slices.Insert(dst, begin, appendLength(line[:0], len(dst)-begin)...)
}

// lengthLineLen is the size of the longest length line that is written.
const lengthLineLen = len("9223372036854775807\n")

func appendLength(dst []byte, n int) []byte {
	return append(strconv.AppendInt(dst, int64(n), 10), '\n')
}
