package client

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

const (
	fractionDigits = 8
	unitsOfOne     = 1e8 // number of units in 1
	wholeDigitsMax = 18  // most digits before the point in a parsed number, without leading zeros
)

// Decimal is an exact decimal number with up to 8 fractional digits: dollars, dollars a share, or shares. The zero
// value is 0. Two Decimals are equal, even by ==, if their numbers are equal. There is no conversion from or to
// floats.
type Decimal struct {
	hi int64 // 128 bits in two's complement, in units of 10^-8
	lo uint64
}

// ParseDecimal parses a number in the protocol's format: an optional sign, digits, and optionally a point
// and up to 8 digits ("100", "-0.5", ".5"). The error quotes a text that is malformed or whose number is
// not below 10^18.
func ParseDecimal(s string) (Decimal, error) {
	digits, negative := s, false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		digits, negative = s[1:], s[0] == '-'
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	switch {
	case whole == "" && fraction == "", !onlyDigits(whole), !onlyDigits(fraction):
		return Decimal{}, fmt.Errorf("client: %.64q is not a decimal number", s)
	case len(fraction) > fractionDigits:
		return Decimal{}, fmt.Errorf("client: %.64q has more than %d fractional digits", s, fractionDigits)
	}
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > wholeDigitsMax {
		return Decimal{}, fmt.Errorf("client: %.64q is not below 10^%d", s, wholeDigitsMax)
	}
	// Neither call can fail: both texts are short and have only digits. An empty text counts as 0.
	w, _ := strconv.ParseUint("0"+whole, 10, 64)
	f, _ := strconv.ParseUint((fraction + "00000000")[:fractionDigits], 10, 64)
	d := units(w, f)
	if negative {
		d = d.Neg()
	}
	return d, nil
}

// MustDecimal is ParseDecimal for constants of the program. It panics if the text is invalid.
func MustDecimal(s string) Decimal {
	d, err := ParseDecimal(s)
	if err != nil {
		panic(err)
	}
	return d
}

// Whole returns the whole number n.
func Whole(n int64) Decimal {
	if n < 0 {
		return units(-uint64(n), 0).Neg()
	}
	return units(uint64(n), 0)
}

// units returns the Decimal of whole × 10^8 + fraction units.
func units(whole, fraction uint64) Decimal {
	hi, lo := bits.Mul64(whole, unitsOfOne)
	lo, carry := bits.Add64(lo, fraction, 0)
	return Decimal{int64(hi + carry), lo}
}

func onlyDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Sign returns -1, 0 or 1: the sign of d.
func (d Decimal) Sign() int {
	switch {
	case d.hi < 0:
		return -1
	case d == Decimal{}:
		return 0
	}
	return 1
}

// Cmp returns -1 if d < e, 0 if d == e, and 1 if d > e.
func (d Decimal) Cmp(e Decimal) int {
	switch {
	case d == e:
		return 0
	case d.hi < e.hi, d.hi == e.hi && d.lo < e.lo:
		return -1
	}
	return 1
}

// Neg returns -d.
func (d Decimal) Neg() Decimal {
	lo, borrow := bits.Sub64(0, d.lo, 0)
	return Decimal{int64(-uint64(d.hi) - borrow), lo}
}

// Add returns d + e. It panics if the sum is out of range, which is at about 10^30. Sums of amounts that an
// exchange can hold are far below.
func (d Decimal) Add(e Decimal) Decimal {
	lo, carry := bits.Add64(d.lo, e.lo, 0)
	sum := Decimal{int64(uint64(d.hi) + uint64(e.hi) + carry), lo}
	if d.hi < 0 == (e.hi < 0) && sum.hi < 0 != (d.hi < 0) {
		panic("client: a sum of decimals is out of range")
	}
	return sum
}

// Sub returns d - e. It panics like Add.
func (d Decimal) Sub(e Decimal) Decimal { return d.Add(e.Neg()) }

// String returns the shortest decimal text of d, as the exchange prints it: "125", "-0.5".
func (d Decimal) String() string { return string(d.append(nil)) }

func (d Decimal) append(dst []byte) []byte {
	if d.hi < 0 {
		dst, d = append(dst, '-'), d.Neg()
	}
	high := uint64(d.hi) / unitsOfOne
	low, fraction := bits.Div64(uint64(d.hi)%unitsOfOne, d.lo, unitsOfOne)
	dst = appendWhole(dst, high, low)
	if fraction == 0 {
		return dst
	}
	digits := strconv.AppendUint(nil, unitsOfOne+fraction, 10)
	digits[0] = '.' // replaces the 1 that keeps leading zeros
	return append(dst, strings.TrimRight(string(digits), "0")...)
}

// appendWhole appends high × 2^64 + low in decimal.
func appendWhole(dst []byte, high, low uint64) []byte {
	const ten19 = 1e19 // the largest power of ten in 64 bits
	if high == 0 {
		return strconv.AppendUint(dst, low, 10)
	}
	front, back := bits.Div64(high, low, ten19) // high is below 2^37
	dst = strconv.AppendUint(dst, front, 10)
	digits := strconv.FormatUint(back, 10)
	dst = append(dst, strings.Repeat("0", 19-len(digits))...)
	return append(dst, digits...)
}

// MarshalText returns String, and no error.
func (d Decimal) MarshalText() ([]byte, error) { return d.append(nil), nil }

// UnmarshalText parses what ParseDecimal accepts. After an error d is unchanged.
func (d *Decimal) UnmarshalText(text []byte) error {
	parsed, err := ParseDecimal(string(text))
	if err == nil {
		*d = parsed
	}
	return err
}
