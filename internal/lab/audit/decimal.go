package audit

import (
	"math/big"
	"strconv"
	"strings"

	"outcry/internal/lab/model"
)

// unit is one share, or one dollar a share, in units of 10^-8.
const unit = 100_000_000

// decimal prints v units of 10^-8 in its shortest exact form.
func decimal(v int64) string { return model.Decimal(big.NewInt(v), 8) }

// number reads an order id. It returns 0 if s is not an order id.
func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// kindOf removes the numbers from an error's text, so that equal errors can be counted together.
func kindOf(text string) string {
	digits := false
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			digits = r == '.' && digits
			if digits {
				return -1
			}
			return r
		}
		if digits {
			return -1
		}
		digits = true
		return '#'
	}, text)
}

// hundredMillionths reads a decimal in units of 10^-8; "" is 0. It returns -1, which equals no valid
// value, if s is malformed or has too many digits.
func hundredMillionths(s string) int64 {
	if s == "" {
		return 0
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return -1
	}
	r.Mul(r, big.NewRat(unit, 1))
	if !r.IsInt() || !r.Num().IsInt64() {
		return -1
	}
	return r.Num().Int64()
}
