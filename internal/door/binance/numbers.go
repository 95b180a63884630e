package binance

import (
	"strconv"
	"strings"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// Decimals are strings with at least eight digits after the point, and more if the exact value has them, because
// rounding a sum of money to eight digits would make it wrong. There is never an exponent.

// fractionDigits is the minimum number of digits after the point.
const fractionDigits = 8

// zero is the decimal 0.
const zero = "0.00000000"

// decimal appends a member whose value is a decimal.
func decimal[D jsontext.Exact](b []byte, name string, d D) []byte {
	return appendDecimal(jsontext.Name(b, name), d)
}

// appendDecimal appends a decimal.
func appendDecimal[D jsontext.Exact](b []byte, d D) []byte {
	b = append(b, '"')
	before := len(b)
	b = d.Append(b)
	have := -1 // number of digits after the point; -1 without a point
	for i := before; i < len(b); i++ {
		if b[i] == '.' {
			have = len(b) - i - 1
			break
		}
	}
	if have < 0 {
		b, have = append(b, '.'), 0
	}
	for ; have < fractionDigits; have++ {
		b = append(b, '0')
	}
	return append(b, '"')
}

// appendLevel appends a price level: its price and shares.
func appendLevel(b []byte, p exchange.Price, shares exchange.Position) []byte {
	b = appendDecimal(append(b, '['), p)
	return append(appendDecimal(append(b, ','), shares), ']')
}

// millis returns a time in milliseconds since the Unix epoch, rounded down.
func millis(nanos int64) int64 {
	const unit = 1_000_000
	if nanos < 0 {
		return ^(^nanos / unit)
	}
	return nanos / unit
}

// decimalDigitsMax is the maximum number of digits before the point, and after it, in a client's decimal.
const decimalDigitsMax = 20

// legalDecimal is the pattern of a client's decimal, for error texts.
const legalDecimal = `^([0-9]{1,20})(\.[0-9]{1,20})?$`

// plainDecimal returns a client's decimal without trailing zeros. It returns an error if the value is malformed, has a
// nonzero digit after the eighth decimal place, or has more digits before the point than any value may.
func plainDecimal(name, value string) (string, *Error) {
	whole, fraction, dotted := strings.Cut(value, ".")
	if !isDigits(whole) || dotted && !isDigits(fraction) || len(whole) > decimalDigitsMax ||
		len(fraction) > decimalDigitsMax {
		return "", illegal(name, legalDecimal)
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > fractionDigits {
		return "", bad(-1111, "Parameter '"+name+"' has too much precision.")
	}
	if fraction == "" {
		return whole, nil
	}
	return whole + "." + fraction, nil
}

// isDigits reports whether s consists of one or more digits.
func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// quantity parses the amount of an order.
func quantity(name, value string) (exchange.Shares, *Error) {
	plain, problem := plainDecimal(name, value)
	if problem != nil {
		return 0, problem
	}
	_, shares, err := exchange.ParseAmount(plain)
	if err != nil {
		return 0, bad(-1013, "Invalid quantity.")
	}
	return shares, nil
}

// price parses the limit of an order.
func price(name, value string) (exchange.Price, *Error) {
	plain, problem := plainDecimal(name, value)
	if problem != nil {
		return 0, problem
	}
	limit, err := exchange.ParseLimit(plain)
	if err != nil {
		return 0, bad(-1013, "Invalid price.")
	}
	return limit, nil
}

// wholeMax is the maximum of whole numbers in requests: up to it, they are exact in every language.
const wholeMax = 1<<53 - 1

// whole parses a whole number from least to wholeMax.
func whole(name, value string, least int64) (int64, *Error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !isDigits(value) || n < least || n > wholeMax {
		return 0, illegal(name, "^[0-9]{1,16}$")
	}
	return n, nil
}
