package exchange

import "encoding/binary"

// Decoder decodes one event after another, for readers of many: names of accounts and symbols come again and again,
// and are not copied each time. The zero Decoder is ready. It is for one goroutine.
type Decoder struct{ names names }

// Decode is DecodeEvent. Strings of several events may be the same.
func (d *Decoder) Decode(b []byte, e *Event) error {
	r := eventReader{rest: b, names: &d.names}
	return r.decode(e, len(b))
}

// names are names that were read, each in the one place that it may have: a later one takes it over.
type names [1 << namesBits]string

const namesBits = 12

// get returns b as a string.
func (n *names) get(b []byte) string {
	const mix = 0x9e3779b97f4a7c15 // odd, and without a pattern
	h, rest := uint64(len(b)), b
	for ; len(rest) >= 8; rest = rest[8:] {
		h = (h ^ binary.LittleEndian.Uint64(rest)) * mix
		h ^= h >> 32
	}
	for _, c := range rest {
		h = (h ^ uint64(c)) * mix
	}
	at := &n[h>>(64-namesBits)]
	if *at != string(b) {
		*at = string(b)
	}
	return *at
}
