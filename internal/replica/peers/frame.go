package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	// MessageBytesMax limits the encoded size of one message between peers, and so of one entry: a
	// batch of records, or one large record, with its framing.
	MessageBytesMax = 128 << 20

	frameHeader = 8 // length u32, CRC-32C u32

	// keepBytesMax limits the memory that a connection keeps between frames. For a larger frame it
	// allocates readStep first, and more only as bytes arrive, so a large length alone allocates
	// little.
	keepBytesMax = 1 << 20
	readStep     = 64 << 10
)

// errFrame is wrapped by errors about malformed frames.
var errFrame = errors.New("peers: malformed frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// beginFrame appends an empty frame header. Append the content after it and then call endFrame.
func beginFrame(b []byte) []byte { return append(b, make([]byte, frameHeader)...) }

// endFrame fills in the header of the frame that starts at offset at of b.
func endFrame(b []byte, at int) {
	content := b[at+frameHeader:]
	binary.LittleEndian.PutUint32(b[at:], uint32(len(content)))
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(content, castagnoli))
}

// appendFrame appends a frame with a tag and content.
func appendFrame(b []byte, tag byte, content []byte) []byte {
	at := len(b)
	b = append(beginFrame(b), tag)
	b = append(b, content...)
	endFrame(b, at)
	return b
}

// frameReader reads frames. Not safe for concurrent use.
type frameReader struct {
	r      io.Reader
	memory []byte
	header [frameHeader]byte
}

// next returns the content of the next frame, which is valid until the next call. The error wraps
// errFrame if the frame is longer than max bytes or its checksum is wrong. It is io.EOF only
// between two frames.
func (f *frameReader) next(max int) ([]byte, error) {
	if _, err := io.ReadFull(f.r, f.header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(f.header[:])
	if uint64(length) > uint64(max) {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", errFrame, length, max)
	}
	content, err := f.content(int(length))
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(content, castagnoli) != binary.LittleEndian.Uint32(f.header[4:]) {
		return nil, fmt.Errorf("%w: wrong checksum of %d bytes", errFrame, length)
	}
	return content, nil
}

// content reads length bytes.
func (f *frameReader) content(length int) ([]byte, error) {
	b := f.memory[:0]
	for len(b) < length {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(length, max(readStep, 2*cap(b)))), b...)
		}
		n, err := io.ReadFull(f.r, b[len(b):min(cap(b), length)])
		b = b[:len(b)+n]
		if err != nil {
			return nil, err
		}
	}
	if f.memory = nil; cap(b) <= keepBytesMax {
		f.memory = b[:0]
	}
	return b, nil
}
