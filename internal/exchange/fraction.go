package exchange

import (
	"errors"
	"fmt"
	"strings"
)

// FractionMax is the largest Fraction that an operator may set: 1000 %.
const FractionMax = 10 * FractionOne

// unitsOfPercent is the number of units of 10^-8 percent in one unit of a Fraction.
const unitsOfPercent = 100

// String returns f in percent, as operators write it: "10%".
func (f Fraction) String() string { return Shares(int64(f)*unitsOfPercent).String() + "%" }

// ParseFraction parses a percentage above 0 and up to FractionMax, with up to 6 fractional
// digits: "10%". The error names the value.
func ParseFraction(s string) (Fraction, error) {
	number, isPercent := strings.CutSuffix(s, "%")
	d, err := parseDecimal(number)
	switch {
	case !isPercent:
		err = errors.New(`is not a number of percent, such as "10%"`)
	case err == nil && (d.negative || d.isZero()):
		err = errors.New("is not more than 0")
	case err == nil && (d.whole > unitsOfPercent*10 || d.orderUnits() > uint64(FractionMax)*unitsOfPercent):
		err = fmt.Errorf("is more than %s", FractionMax)
	case err == nil && d.fraction%unitsOfPercent != 0:
		err = errors.New("has more than 6 fractional digits")
	}
	if err != nil {
		return 0, fmt.Errorf("%s %w", quote(s), err)
	}
	return Fraction(d.orderUnits() / unitsOfPercent), nil
}
