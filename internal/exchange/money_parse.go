package exchange

import (
	"errors"
	"fmt"
)

// quotedCharsMax limits how much of a bad value an error quotes: a frame may
// contain megabytes of digits.
const quotedCharsMax = 72

// quote returns s in quotes for an error text: one line, printable, and cut if it is long.
func quote[S string | []byte](s S) string {
	if len(s) > quotedCharsMax {
		return fmt.Sprintf("%q…", s[:quotedCharsMax])
	}
	return fmt.Sprintf("%q", s)
}

// Reasons why a decimal is invalid. Callers add the name and the value.
var (
	errNotDecimal = errors.New("is not a decimal number")
	errFraction   = errors.New("has more than 8 fractional digits")
	errRange      = errors.New("is out of range")
)

// decimal is a parsed decimal: sign, whole part, and the fraction in 10^-8.
type decimal struct {
	negative bool
	whole    uint64 // below 10^19
	fraction uint64 // below 10^8
}

// isZero reports whether d is 0 or -0.
func (d decimal) isZero() bool { return d.whole|d.fraction == 0 }

// orderUnits returns |d| in units of 10^-8. d.whole must be below orderWholeMax.
func (d decimal) orderUnits() uint64 { return d.whole*pow10[scaleShares] + d.fraction }

// parseDecimal parses an optional sign, digits, and optionally a point and
// digits; one of the two groups of digits may be empty (docs/PROTOCOL.md,
// section "Values"). It returns errNotDecimal, errFraction or errRange.
func parseDecimal[S string | []byte](s S) (d decimal, err error) {
	i := 0
	if len(s) > 0 && (s[0] == '+' || s[0] == '-') {
		d.negative = s[0] == '-'
		i++
	}
	start, overflow := i, false
	for ; i < len(s) && isDigit(s[i]); i++ {
		if d.whole >= wholeMax {
			overflow = true
			continue
		}
		d.whole = d.whole*10 + uint64(s[i]-'0')
	}
	digits := i - start
	fractionDigits := 0
	if i < len(s) && s[i] == '.' {
		i++
		for ; i < len(s) && isDigit(s[i]); i++ {
			if fractionDigits < fractionDigitsMax {
				d.fraction = d.fraction*10 + uint64(s[i]-'0')
			}
			fractionDigits++
		}
	}
	switch {
	case i < len(s) || digits+fractionDigits == 0:
		return decimal{}, errNotDecimal
	case fractionDigits > fractionDigitsMax:
		return decimal{}, errFraction
	case overflow:
		return decimal{}, errRange
	}
	d.fraction *= pow10[fractionDigitsMax-fractionDigits]
	return d, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// The Parse functions accept a value as a string or as bytes, which they do not keep. They
// allocate only their errors and the names that they return.

// ParseBalance parses the balance of a new account: a decimal that is at least 0 and below
// 10^18 dollars. The error names the value.
func ParseBalance[S string | []byte](s S) (Cash, error) {
	d, err := parseDecimal(s)
	switch {
	case err == nil && d.negative && !d.isZero():
		err = errors.New("is negative")
	case err == nil && d.whole >= wholeMax:
		err = errRange
	}
	if err != nil {
		return Cash{}, fmt.Errorf("balance %s %w", quote(s), err)
	}
	return Cash(mul64(d.whole, pow10[scaleCash]).Add(Int128{Lo: d.fraction * pow10[scaleCash-scaleShares]})), nil
}

// ParseDeposit parses a number of shares to deposit: a decimal above 0 and below
// 10^18, without surrounding white space. The error names the value.
func ParseDeposit[S string | []byte](s S) (Position, error) {
	d, err := parseDecimal(s)
	switch {
	case err == nil && (d.negative || d.isZero()):
		err = errors.New("is not more than 0")
	case err == nil && d.whole >= wholeMax:
		err = errRange
	}
	if err != nil {
		return Position{}, fmt.Errorf("number of shares %s %w", quote(s), err)
	}
	return Position(mul64(d.whole, pow10[scaleShares]).Add(Int128{Lo: d.fraction})), nil
}

// ParseAmount parses an order's amount: a decimal that is not 0 and whose
// absolute value is below 9×10^10. A positive amount buys, a negative one sells. The
// error names the value.
func ParseAmount[S string | []byte](s S) (Side, Shares, error) {
	d, err := parseDecimal(s)
	switch {
	case err == nil && d.isZero():
		err = errors.New("is 0")
	case err == nil && d.whole >= orderWholeMax:
		err = errRange
	}
	if err != nil {
		return 0, 0, fmt.Errorf("amount %s %w", quote(s), err)
	}
	if d.negative {
		return Sell, Shares(d.orderUnits()), nil
	}
	return Buy, Shares(d.orderUnits()), nil
}

// ParseLimit parses an order's limit: a decimal above 0 and below 9×10^10 dollars per
// share. The error names the value.
func ParseLimit[S string | []byte](s S) (Price, error) {
	d, err := parseDecimal(s)
	switch {
	case err == nil && (d.negative || d.isZero()):
		err = errors.New("is not more than 0")
	case err == nil && d.whole >= orderWholeMax:
		err = errRange
	}
	if err != nil {
		return 0, fmt.Errorf("limit %s %w", quote(s), err)
	}
	return Price(d.orderUnits()), nil
}

// ParseOrderID parses an order id: decimal digits, from 1 to 2^63-1; leading zeros
// are allowed. The error names the value.
func ParseOrderID[S string | []byte](s S) (OrderID, error) {
	var id OrderID
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, fmt.Errorf("order id %s is not a whole number", quote(s))
		}
		// If id is at most orderIDMax/10, appending a digit does not overflow a uint64.
		fits := id <= orderIDMax/10
		id = id*10 + OrderID(s[i]-'0')
		if !fits || id > orderIDMax {
			return 0, fmt.Errorf("order id %s is out of range", quote(s))
		}
	}
	if id == 0 {
		return 0, fmt.Errorf("order id %s is not a number of 1 or more", quote(s))
	}
	return id, nil
}

// ParseAccountID checks an account id: 1 to 64 digits. The error names the value.
func ParseAccountID[S string | []byte](s S) (AccountID, error) {
	if len(s) == 0 || len(s) > AccountDigitsMax {
		return "", fmt.Errorf("account id %s is not 1 to %d digits", quote(s), AccountDigitsMax)
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return "", fmt.Errorf("account id %s is not made of digits", quote(s))
		}
	}
	return AccountID(s), nil
}

// ParseSymbol checks a symbol: 1 to 32 characters of A-Z, a-z, 0-9. The error
// names the value.
func ParseSymbol[S string | []byte](s S) (Symbol, error) {
	if len(s) == 0 || len(s) > SymbolCharsMax {
		return "", fmt.Errorf("symbol %s is not 1 to %d characters", quote(s), SymbolCharsMax)
	}
	for i := range len(s) {
		c := s[i]
		if !isDigit(c) && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", fmt.Errorf("symbol %s has a character other than A-Z, a-z, 0-9", quote(s))
		}
	}
	return Symbol(s), nil
}
