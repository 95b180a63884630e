package postgres

import (
	"encoding/binary"
	"math/bits"

	"outcry/internal/exchange"
)

// Values are sent in Postgres' binary format, which the server need not parse: big-endian, each preceded by
// its length. These functions append them without an interface value or an allocation for each.

func appendNull(b []byte) []byte { return append(b, 0xff, 0xff, 0xff, 0xff) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0, 0, 0, 1, 1)
	}
	return append(b, 0, 0, 0, 1, 0)
}

func appendSmallint(b []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(append(b, 0, 0, 0, 2), uint16(v))
}

func appendBytes(b, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func appendInt(b []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(v))
}

func appendBigint(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(v))
}

func appendText(b []byte, v string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func appendCash(b []byte, v exchange.Cash) []byte {
	return appendNumeric(b, exchange.Int128(v), scaleCash)
}

func appendPosition(b []byte, v exchange.Position) []byte {
	return appendNumeric(b, exchange.Int128(v), scaleShares)
}

// numericGroup is the base of a numeric's digits; each holds four decimal digits.
const numericGroup = 10_000

// appendNumeric appends v × 10^-scale, without trailing zeros, so that people see 125 and not
// 125.0000000000000000. scale must be a multiple of 4.
func appendNumeric(b []byte, v exchange.Int128, scale int) []byte {
	hi, lo, sign := uint64(v.Hi), v.Lo, uint16(0)
	if v.Hi < 0 {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
		sign = 0x4000
	}
	var groups [10]uint16 // least significant group first
	n := 0
	for ; hi|lo != 0; n++ {
		var group uint64
		hi, group = hi/numericGroup, hi%numericGroup
		lo, group = bits.Div64(group, lo, numericGroup)
		groups[n] = uint16(group)
	}
	zeros := 0
	for zeros < n && groups[zeros] == 0 {
		zeros++
	}
	shown := 0 // decimal digits after the point
	if zeros < n && 4*zeros < scale {
		shown = scale - 4*zeros
		for last := groups[zeros]; last%10 == 0; last /= 10 {
			shown--
		}
	}
	weight := n - 1 - scale/4 // the first group's exponent; any value will do for 0
	b = binary.BigEndian.AppendUint32(b, uint32(8+2*(n-zeros)))
	for _, field := range [4]uint16{uint16(n - zeros), uint16(int16(weight)), sign, uint16(shown)} {
		b = binary.BigEndian.AppendUint16(b, field)
	}
	for i := n - 1; i >= zeros; i-- {
		b = binary.BigEndian.AppendUint16(b, groups[i])
	}
	return b
}

// elementType is the object id of the type of an array's elements.
type elementType uint32

const (
	booleans elementType = 16
	bigints  elementType = 20
	integers elementType = 23
	texts    elementType = 25
	numerics elementType = 1700
)

// array is an array parameter of one dimension. The functions above append its values to b; n counts them.
type array struct {
	n int
	b []byte
}

// arrayLength is the offset of the number of elements in an array's header.
const arrayLength = 3 * 4

// newArray returns an empty array of elements of type t.
func newArray(t elementType) array {
	b := make([]byte, 0, 1024)
	for _, field := range [5]uint32{1, 0, uint32(t), 0, 1} { // dimensions, flag for nulls, type, elements, first index
		b = binary.BigEndian.AppendUint32(b, field)
	}
	return array{b: b}
}

// bytes returns the array as a statement's parameter.
func (a *array) bytes() []byte {
	binary.BigEndian.PutUint32(a.b[arrayLength:], uint32(a.n))
	return a.b
}

func (a *array) text(v string) { a.n, a.b = a.n+1, appendText(a.b, v) }

func (a *array) bigint(v int64) { a.n, a.b = a.n+1, appendBigint(a.b, v) }

func (a *array) boolean(v bool) { a.n, a.b = a.n+1, appendBool(a.b, v) }

func (a *array) integer(v int32) { a.n, a.b = a.n+1, appendInt(a.b, v) }

func (a *array) cash(v exchange.Cash) { a.n, a.b = a.n+1, appendCash(a.b, v) }

func (a *array) position(v exchange.Position) { a.n, a.b = a.n+1, appendPosition(a.b, v) }

// What precedes and follows the rows of a COPY in its binary format.
const (
	// The header is a signature, flags, and the length of an extension.
	copyHeader  = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	copyTrailer = "\xff\xff"
)
