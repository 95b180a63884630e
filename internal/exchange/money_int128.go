package exchange

import (
	"math/bits"
	"strconv"
)

// Int128 is a signed 128-bit integer in two's complement, the underlying type of Cash
// and Position. The zero value is 0. Values are comparable with ==.
type Int128 struct {
	Hi int64  // upper half, carries the sign
	Lo uint64 // lower half
}

// Add returns a + b. It panics when the sum does not fit: the protocol's limits
// exclude that, so an overflow here is a bug.
func (a Int128) Add(b Int128) Int128 {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi := a.Hi + b.Hi + int64(carry)
	if (a.Hi < 0) == (b.Hi < 0) && (hi < 0) != (a.Hi < 0) {
		panic("exchange: 128-bit addition overflows")
	}
	return Int128{hi, lo}
}

// Sub returns a - b. It panics when the difference does not fit.
func (a Int128) Sub(b Int128) Int128 {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi := a.Hi - b.Hi - int64(borrow)
	if (a.Hi < 0) != (b.Hi < 0) && (hi < 0) != (a.Hi < 0) {
		panic("exchange: 128-bit subtraction overflows")
	}
	return Int128{hi, lo}
}

// Cmp returns -1, 0 or +1 as a is below, equal to or above b.
func (a Int128) Cmp(b Int128) int {
	switch {
	case a == b:
		return 0
	case a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo:
		return -1
	}
	return 1
}

// Sign returns -1, 0 or +1.
func (a Int128) Sign() int { return a.Cmp(Int128{}) }

// mul64 returns a × b. It panics if the product exceeds 2^127 - 1.
func mul64(a, b uint64) Int128 {
	hi, lo := bits.Mul64(a, b)
	if hi > 1<<63-1 {
		panic("exchange: 128-bit multiplication overflows")
	}
	return Int128{int64(hi), lo}
}

// divmod64 returns the quotient and the remainder of a / d. a must not be negative.
func (a Int128) divmod64(d uint64) (q Int128, r uint64) {
	hi, r := bits.Div64(0, uint64(a.Hi), d)
	lo, r := bits.Div64(r, a.Lo, d)
	return Int128{int64(hi), lo}, r
}

// pow10 holds the powers of ten that fit a uint64.
var pow10 = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10,
	1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}

// appendDecimal appends a × 10^-scale in its shortest exact form: no leading zero except
// the one before a point, no trailing zero after it, and no point without digits after it.
func (a Int128) appendDecimal(dst []byte, scale int) []byte {
	if a.Hi < 0 {
		dst = append(dst, '-')
		a = Int128{}.Sub(a)
	}
	whole, fraction := a.divmod64(pow10[scale])
	dst = whole.appendDigits(dst)
	if fraction == 0 {
		return dst
	}
	for ; fraction%10 == 0; scale-- {
		fraction /= 10
	}
	dst = append(dst, '.')
	for i := scale - 1; i > 0 && fraction < pow10[i]; i-- {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, fraction, 10)
}

// appendDigits appends a in base 10. a must not be negative.
func (a Int128) appendDigits(dst []byte) []byte {
	if a.Hi == 0 {
		return strconv.AppendUint(dst, a.Lo, 10)
	}
	const chunk = 19
	upper, lower := a.divmod64(pow10[chunk])
	dst = upper.appendDigits(dst)
	for i := chunk - 1; i > 0 && lower < pow10[i]; i-- {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, lower, 10)
}
