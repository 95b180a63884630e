package exchange

import "encoding/binary"

// Decoder decodes many events. It keeps the names of accounts and symbols, which repeat, so that they
// are not copied for each event. The zero Decoder is ready to use. Not safe for concurrent use.
type Decoder struct{ names names }

// Decode is DecodeEvent, except that the strings of several events may share memory.
func (d *Decoder) Decode(b []byte, e *Event) error {
	r := eventReader{rest: b, names: &d.names}
	return r.decode(e, len(b))
}

// names is a cache of names by hash: each name has one place, and a newer name with the same hash replaces it.
type names [1 << namesBits]string

const namesBits = 12

// get returns b as a string, from the cache if it is there.
func (n *names) get(b []byte) string {
	const mix = 0x9e3779b97f4a7c15 // odd, and without a bit pattern
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
