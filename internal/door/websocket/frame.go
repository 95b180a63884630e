package websocket

import "encoding/binary"

// Bits and codes of RFC 6455, section 5.2.
const (
	bitFin    = 0x80
	bitsRSV   = 0x70
	bitMasked = 0x80

	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa

	controlBytesMax = 125 // payload of a ping, a pong or a close
	headerBytesMax  = 14
)

// Frame is a complete text message as it is sent to a client, including the header. Servers do not mask frames, so one
// Frame is the same for all readers: it is made once, never changes, and may be queued on any number of connections.
// The zero Frame means no frame.
type Frame struct{ bytes []byte }

// NewFrame returns the frame of a text message, which must be UTF-8. The frame has a copy of text.
func NewFrame(text []byte) Frame { return newFrame(opText, text) }

// Len returns the length of the frame in bytes.
func (f Frame) Len() int { return len(f.bytes) }

// Text returns the message in the frame. Callers must not change it.
func (f Frame) Text() []byte {
	switch {
	case len(f.bytes) < 2:
		return nil
	case f.bytes[1] < 126:
		return f.bytes[2:]
	case f.bytes[1] == 126:
		return f.bytes[4:]
	}
	return f.bytes[10:]
}

func newFrame(op byte, payload []byte) Frame {
	n := len(payload)
	b := appendHeader(make([]byte, 0, headerBytes(n)+n), op, n)
	return Frame{append(b, payload...)}
}

// frameRoom is the number of bytes that BeginFrame reserves for a header. Most headers have this length.
const frameRoom = 4

// BeginFrame appends the beginning of a text message's frame to b. The caller then appends the text, and calls EndFrame
// to complete the frame.
func BeginFrame(b []byte) []byte { return append(b, make([]byte, frameRoom)...) }

// EndFrame completes the frame that begins at b[begin:] and reaches to the end of b. The text must be UTF-8.
func EndFrame(b []byte, begin int) []byte {
	text := b[begin+frameRoom:]
	n := len(text)
	header := headerBytes(n)
	if header > frameRoom {
		b = append(b, make([]byte, header-frameRoom)...)
	}
	copy(b[begin+header:], text)
	appendHeader(b[:begin], opText, n)
	return b[:begin+header+n]
}

// appendHeader appends the header of a server's frame with a payload of n bytes.
func appendHeader(b []byte, op byte, n int) []byte {
	b = append(b, bitFin|op)
	switch {
	case n < 126:
		return append(b, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
}

// headerBytes returns the length of the header of a server's frame with a payload of this many bytes.
func headerBytes(payload int) int {
	switch {
	case payload < 126:
		return 2
	case payload < 1<<16:
		return 4
	}
	return 10
}

// header is the header of a client's frame.
type header struct {
	fin    bool
	rsv    bool
	op     byte
	masked bool
	mask   [4]byte
	length uint64
}

// headerLen returns the length of a client's header that begins with these two bytes.
func headerLen(first [2]byte) int {
	n := 2
	switch first[1] &^ bitMasked {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if first[1]&bitMasked != 0 {
		n += 4
	}
	return n
}

// parseHeader parses a header. b has exactly its bytes.
func parseHeader(b []byte) header {
	h := header{fin: b[0]&bitFin != 0, rsv: b[0]&bitsRSV != 0, op: b[0] & 0xf, masked: b[1]&bitMasked != 0}
	switch n := b[1] &^ bitMasked; n {
	case 126:
		h.length = uint64(binary.BigEndian.Uint16(b[2:]))
	case 127:
		h.length = binary.BigEndian.Uint64(b[2:])
	default:
		h.length = uint64(n)
	}
	if h.masked {
		copy(h.mask[:], b[len(b)-4:])
	}
	return h
}

// isControl reports whether the frame is a close, a ping or a pong.
func (h *header) isControl() bool { return h.op&0x8 != 0 }

// check returns what is wrong with a client's frame, "" if it is valid. inMessage means that the frames before it began
// a message that is not complete yet.
func (h *header) check(inMessage bool) (wrong string) {
	switch {
	case h.rsv:
		return "reserved bits are set"
	case !h.masked:
		return "a frame is not masked"
	case h.op > opBinary && h.op < opClose || h.op > opPong:
		return "a frame of unknown kind"
	case h.isControl() && !h.fin:
		return "a control frame in fragments"
	case h.isControl() && h.length > controlBytesMax:
		return "a control frame of more than 125 bytes"
	case h.op == opContinuation && !inMessage:
		return "a continuation of nothing"
	case !h.isControl() && h.op != opContinuation && inMessage:
		return "a message within another"
	}
	return ""
}

// unmask removes the mask from bytes of a frame's payload that begin at offset.
func unmask(b []byte, mask [4]byte, offset int) {
	var m [4]byte
	for i := range m {
		m[i] = mask[(offset+i)&3]
	}
	word := uint64(binary.LittleEndian.Uint32(m[:]))
	word |= word << 32
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^word)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= m[i&3]
	}
}
